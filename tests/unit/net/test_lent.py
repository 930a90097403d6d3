"""A connection in a thread's hands: where its bytes are what was sent, a request at a time, and back at any time."""

from __future__ import annotations

import asyncio
import select
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.client.connecting import _transport
from penstock.concurrency.locks import LOOP, READER, TryLock
from penstock.config import ClientConfig
from penstock.errors import ConnectionLost, PenstockError
from penstock.interfaces import Frame
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.asyncio_connection import AsyncioConnection, DetachedSocketReader
from penstock.net.connecting import ListenerOptions, TransportOptions
from penstock.net.loops import new_loop
from penstock.net.network import MemoryNetwork, Network, Tcp
from penstock.net.server import serve
from tests.loops import LOOPS
from tests.unit.net.test_tls import files, listening
from tests.unit.net.toy import HEAD, ToyDialect, ToyFraming, ToyFront, ask, encode, until

__all__ = ["files"]


class WholeFraming(ToyFraming):
    """Takes small frames at once, as Kafka's does."""

    def whole(self, view: memoryview, most: int) -> Frame | int:
        if self._wanted is not None or len(view) < HEAD.size:
            return 0
        (length,) = struct.unpack_from(">i", view)
        if length + 4 == len(view):
            self.need()
            body = memoryview(bytes(view))
            correlation, reply = struct.unpack_from(">i?", body, 4)
            return Frame(correlation, reply, body[HEAD.size :])
        missing: int = length + 4 - len(view)
        return missing if missing > 0 and length + 4 <= most else 0


class Dialect(ToyDialect):
    def framing(self) -> WholeFraming:
        return WholeFraming()


Heard = list[bytes | PenstockError]


@asynccontextmanager
async def parked(
    network: Network | None = None,
    options: ListenerOptions | None = None,
    transport: TransportOptions | None = None,
    server: Network | None = None,
) -> AsyncIterator[tuple[ToyFront, AsyncioConnection, Heard]]:
    """A connection over which one request is under way, whose answer waits for the front's gate."""
    front = ToyFront()
    listener = await serve(front, Endpoint("127.0.0.1", 0), options=options, network=server or network)
    channel = AsyncioChannel(Dialect(), network=network, options=transport)
    heard: Heard = []
    try:
        connection = (await channel.link(listener.endpoint)).connection
        assert isinstance(connection, AsyncioConnection)
        connection.tell(
            ask(b"park a"),
            lambda answer: heard.append(bytes(answer.body) if isinstance(answer, Frame) else answer),
            timeout_s=30,
        )
        await until(lambda: b"park a" in front.seen)
        yield front, connection, heard
    finally:
        front.gate.set()
        await channel.close()
        await listener.close()


def run(work: Coroutine[Any, Any, None], loop: str = "uvloop") -> None:
    with asyncio.Runner(loop_factory=new_loop if loop == "uvloop" else asyncio.new_event_loop) as runner:
        runner.run(work)


def lent_by(connection: AsyncioConnection, hold: TryLock) -> DetachedSocketReader:
    lent = connection.lend(hold)
    assert lent is not None
    return lent


async def answer_to(lent: DetachedSocketReader) -> Frame | None:
    """Received in a thread."""

    def wait() -> Frame | None:
        waiting = select.poll()
        waiting.register(lent.fileno, select.POLLIN)
        while True:
            assert waiting.poll(10_000)
            frame = lent.receive()
            if frame is not None or lent.over:
                return frame

    return await asyncio.to_thread(wait)


@pytest.mark.parametrize("loop", LOOPS)
def test_answers_come_to_the_thread_and_the_last_one_to_who_asked(loop: str) -> None:
    async def work() -> None:
        async with parked() as (front, connection, heard):
            hold = TryLock()
            assert hold.take(READER)
            lent = lent_by(connection, hold)
            assert connection.lend(hold) is None  # once
            front.gate.set()
            frame = await answer_to(lent)
            assert frame is not None
            assert bytes(frame.body) == b"PARK A"
            for word in (b"b", b"c"):
                assert lent.send(ask(word), timeout_s=30, held_s=0)
                frame = await answer_to(lent)
                assert frame is not None
                assert bytes(frame.body) == word.upper()
            assert lent.send(ask(b"d"), timeout_s=30, held_s=0)
            assert not heard
            lent.give_back()
            assert lent.over
            assert not lent.send(ask(b"e"), timeout_s=30, held_s=0)
            await until(lambda: bool(heard))
            assert heard == [b"D"]
            assert await connection.call(ask(b"f"), timeout_s=5)
            assert heard == [b"D"]

    run(work(), loop)


def test_a_frame_that_is_given_back_is_heard_by_who_asked() -> None:
    async def work() -> None:
        async with parked() as (front, connection, heard):
            lent = lent_by(connection, TryLock())
            front.gate.set()
            frame = await answer_to(lent)
            assert frame is not None
            lent.give_back(frame)
            await until(lambda: bool(heard))
            assert heard == [b"PARK A"]

    run(work())


def test_after_an_answer_that_was_heard_here_the_loop_goes_on_with_what_it_is_told() -> None:
    async def work() -> None:
        async with parked() as (front, connection, heard):
            lent = lent_by(connection, TryLock())
            front.gate.set()
            assert await answer_to(lent) is not None
            went_on = asyncio.Event()
            lent.give_back(None, went_on.set)
            await asyncio.wait_for(went_on.wait(), 5)
            assert await connection.call(ask(b"b"), timeout_s=5)
            assert heard == []

    run(work())


@pytest.mark.parametrize("word", [b"big 100000", b"push x", b"stray"])
def test_what_is_not_one_small_answer_goes_back_as_it_came(word: bytes) -> None:
    async def work() -> None:
        async with parked() as (front, connection, heard):
            lent = lent_by(connection, TryLock())
            front.gate.set()
            assert await answer_to(lent) is not None
            assert lent.send(ask(word), timeout_s=30, held_s=0)
            assert await answer_to(lent) is None
            assert lent.over
            await until(lambda: bool(heard))
            if word == b"stray":
                assert isinstance(heard[0], PenstockError)  # an answer that nobody asked for
            else:
                assert heard == [bytes(100_000) if word.startswith(b"big") else word.upper()]

    run(work())


def test_pieces_of_an_answer_are_put_together() -> None:
    async def main() -> None:
        pieces: asyncio.Queue[bytes] = asyncio.Queue()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for number, text in ((1, b"hello"), (2, b"park")):
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
                answer = b"".join(encode(number, text.upper(), reply=True))
                if number == 1:
                    writer.write(answer)
                    continue
                for at in range(len(answer)):
                    writer.write(answer[at : at + 1])
                    await writer.drain()
                    await pieces.get()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(slow, "127.0.0.1", 0)
        channel = AsyncioChannel(Dialect())
        port = server.sockets[0].getsockname()[1]
        link = await channel.link(Endpoint("127.0.0.1", port))
        connection = link.connection
        assert isinstance(connection, AsyncioConnection)
        connection.tell(ask(b"park"), lambda _: None, timeout_s=30)
        lent = lent_by(connection, TryLock())
        receiving = asyncio.create_task(answer_to(lent))
        while not receiving.done():
            pieces.put_nowait(b"")
            await asyncio.sleep(0)
        frame = await receiving
        if frame is None:  # its first piece was too small for a beginning: the loop puts it together
            assert lent.over
        else:
            assert bytes(frame.body) == b"PARK"
        await channel.close()
        server.close()

    run(main())


def test_a_peer_that_hangs_up_and_a_connection_that_is_closed_are_told() -> None:
    async def work() -> None:
        for close in (True, False):
            async with parked() as (_, connection, heard):
                hold = TryLock()
                assert hold.take(READER)
                lent = lent_by(connection, hold)
                waiting = asyncio.create_task(answer_to(lent))
                await asyncio.sleep(0)
                connection.close() if close else connection.abort()
                assert await waiting is None  # the thread is woken
                lent.forget()
                assert lent.over
                await until(lambda: bool(heard))
                assert [type(each) for each in heard] == [ConnectionLost]

    run(work())


def test_the_loop_takes_it_back_only_from_nobody() -> None:
    async def work() -> None:
        async with parked() as (front, connection, heard):
            hold = TryLock()
            lent = lent_by(connection, hold)
            assert hold.take(READER)
            assert not lent.recall()
            hold.leave(READER)
            assert lent.recall()
            assert lent.over
            assert hold.take(READER)
            front.gate.set()
            await until(lambda: bool(heard))
            assert heard == [b"PARK A"]

    run(work())


def test_what_was_broken_off_ends_the_connection_and_is_told() -> None:
    async def work() -> None:
        async with parked() as (_, connection, heard):
            lent = lent_by(connection, TryLock())
            done = asyncio.Event()
            lent.break_off(done.set)
            await asyncio.wait_for(done.wait(), 5)
            await until(lambda: bool(heard))
            assert [type(each) for each in heard] == [ConnectionLost]
            assert connection.closed

    run(work())


def test_over_tls_and_in_memory_nothing_is_lent(files: tuple[Path, Path]) -> None:
    config = ClientConfig(tls=True, tls_ca_file=str(files[0]), tls_server_name="tube.test")

    async def work() -> None:
        options, transport = listening(files), _transport(config)
        async with parked(None, options, transport, Tcp(ssl=options.ssl)) as (front, connection, heard):
            assert connection.lend(TryLock()) is None
            front.gate.set()
            await until(lambda: bool(heard))
        async with parked(MemoryNetwork()) as (_, connection, _):
            assert connection.lend(TryLock()) is None

    run(work())
    run(work(), "asyncio")


def test_two_requests_under_way_are_the_loops() -> None:
    async def work() -> None:
        async with parked() as (_, connection, _):
            connection.tell(ask(b"silent"), lambda _: None, timeout_s=30)
            assert connection.lend(TryLock()) is None

    run(work())


def test_a_hold_is_one_parties_until_it_leaves() -> None:
    hold = TryLock()
    assert hold.take(READER)
    assert hold.take(READER)  # who was interrupted need not know
    assert not hold.take(LOOP)
    hold.leave(LOOP)
    assert not hold.take(LOOP)
    hold.leave(READER)
    hold.leave(READER)
    assert hold.take(LOOP)
    assert not hold.take(READER)
