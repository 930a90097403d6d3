"""A listener at several ports of one address: each serves its own, and all are one listener."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.errors import ConnectionLost
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import ListenerOptions, TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from tests.unit.net.toy import ToyDialect, ToyFront, ask

HERE, SIDE = Endpoint("127.0.0.1", 1_000), Endpoint("127.0.0.1", 1_001)


def go(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def test_each_port_has_its_own_front_and_all_connections_are_counted_together() -> None:
    async def body() -> None:
        network, main, side = MemoryNetwork(), ToyFront(), ToyFront()
        options = ListenerOptions(max_connections=2)
        listener = await serve(main, HERE, options=options, network=network, further={SIDE.port: side})
        channel = AsyncioChannel(ToyDialect(), options=TransportOptions(reconnect_backoff_ms=1), network=network)
        for at, word in ((HERE, b"main"), (SIDE, b"side")):
            link = await channel.link(at)
            assert bytes((await link.connection.call(ask(word), timeout_s=5)).body) == word.upper()
        assert (listener.endpoint, listener.connections) == (HERE, 2)
        assert (main.seen, side.seen) == ([b"hello", b"main"], [b"hello", b"side"])
        with pytest.raises(ConnectionLost):
            await channel.link(SIDE, "third")
        assert listener.refused == 1
        await channel.close()
        await listener.close()
        for at in (HERE, SIDE):
            with pytest.raises(OSError):
                await network.connect(asyncio.BufferedProtocol, at)

    go(body())


def test_a_port_that_is_taken_leaves_nothing_open() -> None:
    async def body() -> None:
        network = MemoryNetwork()
        other = await serve(ToyFront(), SIDE, network=network)
        with pytest.raises(OSError):
            await serve(ToyFront(), HERE, network=network, further={SIDE.port: ToyFront()})
        again = await serve(ToyFront(), HERE, network=network)
        for each in (again, other):
            await each.close()

    go(body())
