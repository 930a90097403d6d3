"""Answers that come later, by a call and in no task: written as they come, together where they come together."""

from __future__ import annotations

import asyncio

import pytest

from penstock.concurrency.runtime import Deferred, arrived
from penstock.interfaces import Buffers, Frame, Peer
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from penstock.net.runtime import AsyncioRuntime
from penstock.net.server import serve
from tests.unit.client import virtual_time
from tests.unit.net.toy import ToyDialect, ToyFraming, ToyFront, ToySession, ask, encode, until


class Patient:
    """Keeps what it owes until it is told to give."""

    def __init__(self, front: ToyFront, peer: Peer) -> None:
        self._toy = ToySession(front, peer)
        self.ordered, self.at_once = self._toy.ordered, self._toy.at_once
        self.lost = self._toy.lost

    async def handle(self, frame: Frame) -> Buffers | Deferred[Buffers] | None:
        if bytes(frame.body) == b"hello":
            return await self._toy.handle(frame)
        later: Deferred[Buffers] = Deferred(AsyncioRuntime().promise)
        OWED.append((frame.correlation, later))
        return later

    def framing(self) -> ToyFraming:
        return ToyFraming()


class Patience:
    """A front of such sessions."""

    scheme = "toy"

    def __init__(self, *, at_once: bool = True) -> None:
        self.toy = ToyFront(ordered=False, at_once=at_once)

    def session(self, peer: Peer) -> Patient:
        return Patient(self.toy, peer)

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


OWED: list[tuple[int, Deferred[Buffers]]] = []


def give(*places: int) -> None:
    for place in places:
        correlation, later = OWED[place]
        later.give(encode(correlation, b"%d" % place, reply=True))


@pytest.fixture(autouse=True)
def _owe_nothing() -> None:
    OWED.clear()


@pytest.mark.parametrize("at_once", [True, False], ids=["begun at once", "in tasks"])
def test_each_request_gets_its_own_in_whatever_order_they_come(at_once: bool) -> None:
    async def work() -> None:
        network = MemoryNetwork()
        listener = await serve(Patience(at_once=at_once), Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        link = await channel.link(listener.endpoint)
        started = link.connection.start_all([ask(b"%d" % n) for n in range(6)], timeout_s=5)
        await until(lambda: len(OWED) == 6)
        give(5, 1, 0)
        replies = [bytes((await started[place].reply()).body) for place in (5, 1, 0)]
        assert replies == [b"5", b"1", b"0"]
        give(2, 4, 3)
        assert [bytes((await started[place].reply()).body) for place in (2, 3, 4)] == [b"2", b"3", b"4"]
        await channel.close()
        await listener.close()

    virtual_time.run(work())


def test_a_listener_that_closes_waits_for_them() -> None:
    async def work() -> None:
        network = MemoryNetwork()
        listener = await serve(Patience(), Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        link = await channel.link(listener.endpoint)
        (started,) = link.connection.start_all([ask(b"0")], timeout_s=5)
        await until(lambda: len(OWED) == 1)
        asyncio.get_running_loop().call_later(0.5, give, 0)
        closing = asyncio.ensure_future(listener.close(drain_s=1.0))
        assert bytes((await started.reply()).body) == b"0"
        await closing
        await channel.close()

    virtual_time.run(work())


def test_one_that_comes_when_the_client_is_gone_goes_nowhere() -> None:
    async def work() -> None:
        network = MemoryNetwork()
        front = Patience()
        listener = await serve(front, Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        link = await channel.link(listener.endpoint)
        link.connection.start_all([ask(b"0"), ask(b"1")], timeout_s=5)
        await until(lambda: len(OWED) == 2)
        await channel.close()
        await until(lambda: front.toy.lost == 1)
        give(0, 1)
        await listener.close()

    virtual_time.run(work())


@pytest.mark.parametrize("early", [True, False], ids=["given before", "given after"])
def test_it_can_be_awaited(early: bool) -> None:
    async def work() -> None:
        later: Deferred[int] = Deferred(AsyncioRuntime().promise)
        waiting: asyncio.Future[int | None] = asyncio.ensure_future(arrived(later))
        if not early:
            await asyncio.sleep(0)
        later.give(7)
        assert await waiting == 7

    asyncio.run(work())
