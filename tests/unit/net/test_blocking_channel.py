"""The blocking channel against a real listener in another thread: no loop, no suspension, the same rules."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from penstock.errors import ConnectionLost, ProtocolViolation, RequestTimeout, UsageError
from penstock.model import Endpoint
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.net.server import serve
from tests.unit.net.toy import ToyDialect, ToyFront, ask


@dataclass
class Node:
    """A listener on a loop in a thread."""

    endpoint: Endpoint = field(init=False)
    front: ToyFront = field(init=False)
    ready: threading.Event = field(default_factory=threading.Event)
    stop: asyncio.Event = field(init=False)
    loop: asyncio.AbstractEventLoop = field(init=False)

    async def live(self) -> None:
        self.front, self.stop, self.loop = ToyFront(), asyncio.Event(), asyncio.get_running_loop()
        listener = await serve(self.front, Endpoint("127.0.0.1", 0))
        self.endpoint = listener.endpoint
        self.ready.set()
        await self.stop.wait()
        await self.front.stop()
        await listener.close()


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    thread = threading.Thread(target=lambda: asyncio.run(node.live()))
    thread.start()
    assert node.ready.wait(5)
    yield node
    node.loop.call_soon_threadsafe(node.stop.set)
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def channel() -> Iterator[BlockingChannel[str]]:
    channel = BlockingChannel(ToyDialect())
    yield channel
    run(channel.close())


def call(channel: BlockingChannel[str], node: Node, text: bytes, timeout_s: float = 5.0) -> bytes:
    async def work() -> bytes:
        link = await channel.link(node.endpoint)
        return bytes((await link.connection.call(ask(text), timeout_s=timeout_s)).body)

    return run(work())


def test_a_whole_operation_runs_without_suspending(node: Node, channel: BlockingChannel[str]) -> None:
    assert call(channel, node, b"word") == b"WORD"
    assert call(channel, node, b"big 5000000") == bytes(5_000_000)


def test_answers_are_kept_for_whoever_asks_later(node: Node, channel: BlockingChannel[str]) -> None:
    connection = run(channel.link(node.endpoint)).connection
    pending = [connection.start(ask(f"word {n}".encode()), timeout_s=5) for n in range(20)]
    for n in reversed(range(20)):
        assert bytes(run(pending[n].reply()).body) == f"WORD {n}".encode()


def test_no_answer_in_time_closes_and_the_next_call_reconnects(node: Node, channel: BlockingChannel[str]) -> None:
    with pytest.raises(RequestTimeout):
        call(channel, node, b"park", timeout_s=0.02)
    assert call(channel, node, b"again") == b"AGAIN"


def test_a_connection_that_broke_is_remade(node: Node, channel: BlockingChannel[str]) -> None:
    with pytest.raises(ConnectionLost, match="the peer closed it"):
        call(channel, node, b"violate")
    assert call(channel, node, b"again") == b"AGAIN"


def test_an_answer_nobody_asked_for_is_a_violation(node: Node, channel: BlockingChannel[str]) -> None:
    with pytest.raises(ProtocolViolation, match="not asked"):
        call(channel, node, b"stray")
    assert call(channel, node, b"again") == b"AGAIN"


def test_nobody_listening_is_told_with_the_address(channel: BlockingChannel[str]) -> None:
    with pytest.raises(ConnectionLost, match=r"Is anything listening on 127\.0\.0\.1:1"):
        run(channel.link(Endpoint("127.0.0.1", 1)))


def test_gather_keeps_order_and_returns_errors(node: Node, channel: BlockingChannel[str]) -> None:
    async def one(text: bytes) -> bytes:
        link = await channel.link(node.endpoint)
        return bytes((await link.connection.call(ask(text), timeout_s=5)).body)

    first, second, third = run(channel.gather([one(b"a"), one(b"violate"), one(b"c")]))
    assert (first, third) == (b"A", b"C")
    assert isinstance(second, ConnectionLost)


def test_a_coroutine_that_waits_for_something_else_is_refused() -> None:
    async def stray() -> None:
        await asyncio.sleep(0)

    with pytest.raises(UsageError, match="suspended"):
        run(stray())


def test_of_several_answers_the_first_is_waited_for_and_kept(node: Node) -> None:
    channel = BlockingChannel(ToyDialect())
    connection = run(channel.link(node.endpoint)).connection
    one, two = (connection.start(ask(text), timeout_s=5.0) for text in (b"one", b"two"))
    assert not one.answered
    run(channel.any_of([one, two], within_s=5.0))
    assert one.answered
    assert [bytes(run(each.reply()).body) for each in (one, two)] == [b"ONE", b"TWO"]
    left = connection.start(ask(b"left"), timeout_s=5.0)
    connection.close()
    run(channel.any_of([left], within_s=5.0))
    assert left.answered
    with pytest.raises(ConnectionLost):
        run(left.reply())
    run(channel.any_of([], within_s=0.0))
    run(channel.close())
