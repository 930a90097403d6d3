"""Answers that are told instead of waited for: at once, in order, once each, and what they fail with as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout
from penstock.interfaces import Frame
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.blocking_channel import BlockingChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from tests.unit.client import virtual_time
from tests.unit.net.toy import ToyDialect, ToyFront, ask, until


@asynccontextmanager
async def toy(front: ToyFront, **options: int) -> AsyncIterator[tuple[AsyncioChannel[str], Endpoint]]:
    network = MemoryNetwork()
    listener = await serve(front, Endpoint("node", 0), network=network)
    channel = AsyncioChannel(ToyDialect(), network=network, options=TransportOptions(**options))
    try:
        yield channel, listener.endpoint
    finally:
        await channel.close()
        await listener.close()


def noting(heard: list[bytes | PenstockError]) -> Callable[[Frame | PenstockError], None]:
    return lambda answer: heard.append(bytes(answer.body) if isinstance(answer, Frame) else answer)


def test_an_answer_is_told_before_anything_else_runs() -> None:
    async def work() -> None:
        async with toy(ToyFront()) as (channel, endpoint):
            await channel.link(endpoint)
            link = channel.prompt(endpoint)
            assert link is not None
            heard: list[bytes | PenstockError] = []
            link.connection.tell(ask(b"a"), noting(heard), timeout_s=5)
            link.connection.tell(ask(b"b"), lambda _: heard.append(b"then"), timeout_s=5)
            assert heard == []
            await until(lambda: len(heard) == 2)
            assert heard == [b"A", b"then"]
            await virtual_time.passing(60)
            assert len(heard) == 2
            assert not link.connection.closed

    virtual_time.run(work())


def test_a_silent_peer_is_told_in_time_and_ends_the_connection() -> None:
    async def work() -> None:
        async with toy(ToyFront()) as (channel, endpoint):
            await channel.link(endpoint)
            link = channel.prompt(endpoint)
            assert link is not None
            heard: list[bytes | PenstockError] = []
            link.connection.tell(ask(b"silent"), noting(heard), timeout_s=5)
            link.connection.tell(ask(b"silent"), noting(heard), timeout_s=9)
            await virtual_time.passing(4.9)
            assert heard == []
            await virtual_time.passing(0.2)
            assert [type(each) for each in heard] == [RequestTimeout, ConnectionLost]
            assert channel.prompt(endpoint) is None

    virtual_time.run(work())


def test_an_earlier_end_moves_the_clock_forward() -> None:
    async def work() -> None:
        async with toy(ToyFront()) as (channel, endpoint):
            link = await channel.link(endpoint)
            patient = link.connection.start(ask(b"park"), timeout_s=50)
            hasty = link.connection.start(ask(b"silent"), timeout_s=1)
            began = asyncio.get_running_loop().time()
            with pytest.raises(RequestTimeout):
                await hasty.reply()
            assert asyncio.get_running_loop().time() - began == pytest.approx(1)
            with pytest.raises(ConnectionLost):
                await patient.reply()

    virtual_time.run(work())


def test_who_hears_of_a_loss_finds_the_connection_lost() -> None:
    async def work() -> None:
        async with toy(ToyFront()) as (channel, endpoint):
            await channel.link(endpoint)
            link = channel.prompt(endpoint)
            assert link is not None
            found: list[object] = []
            link.connection.tell(ask(b"silent"), lambda _: found.append(channel.prompt(endpoint)), timeout_s=1)
            await virtual_time.passing(2)
            assert found == [None]

    virtual_time.run(work())


def test_nobody_is_prompt_before_the_link_is_open_or_while_others_wait_to_write() -> None:
    async def work() -> None:
        async with toy(ToyFront(), write_high_water_bytes=1) as (channel, endpoint):
            assert channel.prompt(endpoint) is None
            opening = asyncio.ensure_future(channel.link(endpoint))
            await asyncio.sleep(0)
            assert channel.prompt(endpoint) is None
            link = await opening
            assert channel.prompt(endpoint) is not None
            assert channel.prompt(endpoint, "another lane") is None
            connection = channel.prompt(endpoint)
            assert connection is not None
            connection.connection.pause_writing()
            assert channel.prompt(endpoint) is None
            waiting = asyncio.ensure_future(link.connection.call(ask(b"first"), timeout_s=5))
            await asyncio.sleep(0)
            connection.connection.resume_writing()
            assert channel.prompt(endpoint) is None  # the one that waited goes first
            assert bytes((await waiting).body) == b"FIRST"
            assert channel.prompt(endpoint) is not None

    virtual_time.run(work())


def test_a_plain_socket_has_nobody_to_tell() -> None:
    assert BlockingChannel(ToyDialect()).prompt(Endpoint("node", 1)) is None
