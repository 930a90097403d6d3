"""Many requests in one write: answered each, in any order; one that stays unanswered ends the connection in time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout
from penstock.interfaces import Buffer, Frame
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from tests.unit.client import virtual_time
from tests.unit.net.toy import ToyDialect, ToyFront, ask, until


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


def test_answers_to_requests_in_one_piece_are_told_by_their_place_and_so_is_their_end() -> None:
    async def work() -> None:
        network = MemoryNetwork()
        front = ToyFront(ordered=False)
        listener = await serve(front, Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        link = await channel.link(listener.endpoint)
        words = [b"a", b"silent", b"b"]
        told: list[tuple[int, bytes | type]] = []

        def write(serials: Sequence[int]) -> list[Buffer]:
            return [piece for word, serial in zip(words, serials, strict=True) for piece in ask(word)(serial)]

        def hear(place: int, answer: Frame | PenstockError) -> None:
            told.append((place, bytes(answer.body) if isinstance(answer, Frame) else type(answer)))

        link.connection.tell_all(3, write, hear, timeout_s=5)
        await until(lambda: len(told) == 2)
        assert told == [(0, b"A"), (2, b"B")]
        await virtual_time.passing(6)
        assert told[2:] == [(1, RequestTimeout)]
        with pytest.raises(ConnectionLost):
            link.connection.tell_all(1, lambda serials: ask(b"c")(serials[0]), hear, timeout_s=5)
        await channel.close()
        await listener.close()
        assert len(told) == 3

    virtual_time.run(work())
