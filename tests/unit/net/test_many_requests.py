"""Many requests in one write: answered each, in any order; one that stays unanswered ends the connection in time."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import ConnectionLost, RequestTimeout
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.net.memory import MemoryNetwork
from penstock.net.server import serve
from tests.unit.client import virtual_time
from tests.unit.net.toy import ToyDialect, ToyFront, ask


def test_each_is_answered_over_asyncio() -> None:
    async def work() -> None:
        network = MemoryNetwork()
        listener = await serve(ToyFront(), Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        link = await channel.link(listener.endpoint)
        started = link.connection.start_all([ask(b"%d" % n) for n in range(100)], timeout_s=5)
        replies = [bytes((await each.reply()).body) for each in reversed(started)]
        assert replies == [b"%d" % n for n in reversed(range(100))]
        assert link.connection.start_all([], timeout_s=5) == []
        await virtual_time.passing(6)
        assert not link.connection.closed
        await channel.close()
        await listener.close()

    virtual_time.run(work())


def test_silence_to_one_of_them_ends_all_that_are_open() -> None:
    async def work() -> None:
        network = MemoryNetwork()
        listener = await serve(ToyFront(), Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        link = await channel.link(listener.endpoint)
        first, second, third = link.connection.start_all([ask(b"a"), ask(b"silent"), ask(b"silent")], timeout_s=5)
        assert bytes((await first.reply()).body) == b"A"
        with pytest.raises(RequestTimeout):
            await second.reply()
        with pytest.raises(ConnectionLost):
            await third.reply()
        with pytest.raises(ConnectionLost):
            link.connection.start_all([ask(b"b")], timeout_s=5)
        await channel.close()
        await listener.close()

    virtual_time.run(work())


def test_each_is_answered_over_a_plain_socket() -> None:
    def block(endpoint: Endpoint) -> list[bytes]:
        channel = BlockingChannel(ToyDialect())

        async def work() -> list[bytes]:
            link = await channel.link(endpoint)
            started = link.connection.start_all([ask(b"%d" % n) for n in range(100)], timeout_s=5)
            replies = [bytes((await each.reply()).body) for each in reversed(started)]
            await channel.close()
            return replies

        return run(work())

    async def work() -> None:
        listener = await serve(ToyFront(), Endpoint("127.0.0.1", 0))
        assert await asyncio.to_thread(block, listener.endpoint) == [b"%d" % n for n in reversed(range(100))]
        await listener.close()

    asyncio.run(work())
