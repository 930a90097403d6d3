"""A loop that ends cancels every task at once: a channel's attempt to connect, and whoever waits for it."""

from __future__ import annotations

import asyncio

from penstock.errors import PenstockError
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from tests.unit.net.toy import ToyDialect, turn_the_loop


class NobodyAnswers(MemoryNetwork):
    """A network on which connecting takes for ever."""

    async def connect(self, factory: object, endpoint: Endpoint) -> None:
        await asyncio.Event().wait()


def test_who_waits_for_a_connection_ends_when_everything_is_cancelled() -> None:
    """As ``asyncio.run`` does it at its end; a task that goes on would keep it from ever returning."""

    async def main() -> None:
        channel = AsyncioChannel(ToyDialect(), network=NobodyAnswers())
        tries = 0

        async def try_for_ever() -> None:
            nonlocal tries
            while tries < 3:
                tries += 1
                try:
                    await channel.link(Endpoint("127.0.0.1", 1))
                except PenstockError:
                    await asyncio.sleep(0)

        task = asyncio.create_task(try_for_ever())
        await turn_the_loop()
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        assert tries == 1
        await channel.close()

    asyncio.run(main())
