"""What is handed on is written in the order of the calls, however long it takes to find out where a node is."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.interfaces import ChannelRelay, Outgoing
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from penstock.net.runtime import AsyncioRuntime
from tests.toy.behind import Behind
from tests.toy.dialect import ToyDialect
from tests.toy.framing import REQUEST, pack
from tests.unit.client.virtual_time import passing, run


def test_nobody_overtakes_who_is_still_looking_for_the_node() -> None:
    async def main() -> None:
        behind = Behind()
        at = await behind.start("node-a")
        looks = iter([3.0, 2.0, 1.0])

        async def find(node: str | None, again: bool) -> Endpoint:
            await passing(next(looks))
            return at

        def write(place: int) -> Outgoing:
            return lambda number: pack(REQUEST, number, {"do": "write", "at": place})

        relay = relay_over(behind.network, find)
        asked = [asyncio.ensure_future(relay.hand_on(write(place), "a")) for place in range(3)]
        came = await behind.arrived(3)
        assert [each.said["at"] for each in came] == [0, 1, 2]
        for each in asked:
            each.cancel()
        await behind.stop()

    run(main())


def relay_over(network: MemoryNetwork, find: Any) -> ChannelRelay:
    channel = AsyncioChannel(ToyDialect(), network=network)
    return ChannelRelay("toy", channel, find, AsyncioRuntime().promise, timeout_s=10)
