"""Client channel against listener, over loopback TCP and in memory: what a request can meet on its way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.errors import Closed, ConnectionLost, ProtocolViolation, RequestTimeout
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import ListenerOptions, TransportOptions
from penstock.net.network import MemoryNetwork, Network, Tcp
from penstock.net.server import FaultHook, Listener, serve
from tests.unit.net.toy import ToyDialect, ToyFront, ask, turn_the_loop, until

NETWORKS = [pytest.param(Tcp, id="tcp"), pytest.param(MemoryNetwork, id="memory")]


@dataclass
class Pair:
    front: ToyFront
    listener: Listener
    channel: AsyncioChannel[str]
    dialect: ToyDialect
    network: Network

    async def ask(self, text: bytes, *, timeout_s: float = 5.0, lane: str = "") -> bytes:
        link = await self.channel.link(self.listener.endpoint, lane)
        return bytes((await link.connection.call(ask(text), timeout_s=timeout_s)).body)


@asynccontextmanager
async def pair(
    make: Callable[[], Network],
    *,
    ordered: bool = True,
    listening: ListenerOptions | None = None,
    transport: TransportOptions | None = None,
    tap: FaultHook | None = None,
) -> AsyncIterator[Pair]:
    network, front, dialect = make(), ToyFront(ordered=ordered), ToyDialect()
    listener = await serve(front, Endpoint("127.0.0.1", 0), options=listening, network=network, tap=tap)
    channel = AsyncioChannel(dialect, options=transport, network=network)
    try:
        yield Pair(front, listener, channel, dialect, network)
    finally:
        await channel.close()
        front.gate.set()
        await listener.close()
        assert listener.connections == 0


def go(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20), debug=False)


@pytest.mark.parametrize("network", NETWORKS)
def test_an_answer_reaches_the_request_that_asked(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            words = [f"word {n}".encode() for n in range(200)]
            answers = await asyncio.gather(*(it.ask(word) for word in words))
            assert answers == [word.upper() for word in words]
            assert it.listener.connections == 1
            assert (await it.channel.link(it.listener.endpoint)).state == "HELLO"

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_large_bodies_arrive_whole_in_both_directions(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            assert await it.ask(b"big 5000000") == bytes(5_000_000)
            word = b"x" * 3_000_000
            assert await it.ask(word) == word.upper()

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_lanes_do_not_wait_for_each_other(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            parked = asyncio.ensure_future(it.ask(b"park", lane="coordinator"))
            assert await it.ask(b"free") == b"FREE"
            assert not parked.done()
            it.front.gate.set()
            assert await parked == b"PARK"
            assert it.listener.connections == 2

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_an_ordered_session_answers_in_order(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            parked = asyncio.ensure_future(it.ask(b"park"))
            second = asyncio.ensure_future(it.ask(b"second"))
            await until(lambda: b"park" in it.front.seen)
            await turn_the_loop()
            assert b"second" not in it.front.seen
            it.front.gate.set()
            assert [await parked, await second] == [b"PARK", b"SECOND"]

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_an_unordered_session_overtakes(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network, ordered=False) as it:
            parked = asyncio.ensure_future(it.ask(b"park"))
            assert await it.ask(b"second") == b"SECOND"
            assert not parked.done()
            it.front.gate.set()
            assert await parked == b"PARK"

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_a_request_without_answer_in_time_takes_its_connection_along(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            other = asyncio.ensure_future(it.ask(b"park"))
            await until(lambda: b"park" in it.front.seen)
            with pytest.raises(RequestTimeout, match="no answer within"):
                await it.ask(b"late", timeout_s=0.01)
            with pytest.raises(ConnectionLost):
                await other
            it.front.gate.set()
            assert await it.ask(b"again") == b"AGAIN"

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_pushed_frames_reach_the_dialect(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            await it.ask(b"push news")
            assert it.dialect.pushes == [b"news"]

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("word", [b"violate", b"crash"])
def test_an_error_in_a_session_closes_that_connection_only(
    network: Callable[[], Network], word: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with pair(network) as it:
            assert await it.ask(b"fine", lane="other") == b"FINE"
            with pytest.raises(ConnectionLost):
                await it.ask(word)
            assert await it.ask(b"still", lane="other") == b"STILL"
            assert await it.ask(b"anew") == b"ANEW"
            await until(lambda: it.front.lost == 1)

    with caplog.at_level(logging.INFO):
        go(body())
    assert "as asked" in caplog.text


@pytest.mark.parametrize("network", NETWORKS)
def test_an_answer_that_was_not_asked_for_is_a_violation(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            with pytest.raises(ProtocolViolation, match="not asked"):
                await it.ask(b"stray")

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_nobody_listening_is_told_with_the_address(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            nowhere = it.listener.endpoint
            it.listener.stop_accepting()
            with pytest.raises(ConnectionLost, match=r"Is anything listening on 127\.0\.0\.1"):
                await it.channel.link(nowhere)

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_a_cancelled_caller_leaves_the_connection_to_the_others(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            first = asyncio.ensure_future(it.ask(b"first"))
            second = asyncio.ensure_future(it.ask(b"second"))
            await asyncio.sleep(0)
            first.cancel()
            assert await second == b"SECOND"
            parked = asyncio.ensure_future(it.ask(b"park"))
            await until(lambda: b"park" in it.front.seen)
            parked.cancel()
            third = asyncio.ensure_future(it.ask(b"third"))
            it.front.gate.set()
            assert await third == b"THIRD"
            assert it.listener.connections == 1

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_closing_the_channel_fails_what_is_in_flight(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            parked = asyncio.ensure_future(it.ask(b"park"))
            await until(lambda: b"park" in it.front.seen)
            await it.channel.close()
            with pytest.raises(ConnectionLost):
                await parked
            with pytest.raises(Closed):
                await it.channel.link(it.listener.endpoint)

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_closing_the_listener_lets_requests_in_progress_finish(network: Callable[[], Network]) -> None:
    async def body() -> None:
        async with pair(network) as it:
            parked = asyncio.ensure_future(it.ask(b"park"))
            await until(lambda: b"park" in it.front.seen)
            closing = asyncio.ensure_future(it.listener.close(drain_s=5))
            await asyncio.sleep(0)
            await it.front.stop()
            assert await parked == b"PARK"
            await closing

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_a_client_that_pipelines_without_end_is_not_read_without_end(network: Callable[[], Network]) -> None:
    async def body() -> None:
        options = ListenerOptions(queued_frames=4, queued_bytes=100_000)
        async with pair(network, listening=options) as it:
            connection = (await it.channel.link(it.listener.endpoint)).connection
            word = bytes(50_000)
            sent = [connection.start(ask(b"park"), timeout_s=20)]
            sent += [connection.start(ask(word), timeout_s=20) for _ in range(400)]
            await until(lambda: b"park" in it.front.seen)
            await turn_the_loop()
            (server,) = it.listener._connections
            assert server._queued_bytes <= 200_000
            it.front.gate.set()
            for pending in sent:
                await pending.reply()

    go(body())


@pytest.mark.parametrize("ordered", [True, False])
def test_a_client_that_does_not_read_its_answers_does_not_fill_the_node(ordered: bool) -> None:
    async def body() -> None:
        options = ListenerOptions(write_high_water_bytes=100_000, write_limit_bytes=30_000_000, queued_frames=4)
        async with pair(Tcp, ordered=ordered, listening=options) as it:
            reader, writer = await asyncio.open_connection(*_address(it.listener))
            for _ in range(60):
                writer.write(b"".join(ask(b"big 1000000")(1)))
            await until(lambda: len(it.front.seen) >= 3)
            await turn_the_loop()
            held = [server._transport.get_write_buffer_size() for server in it.listener._connections]
            assert sum(held) <= (1_100_000 if ordered else 30_000_000)
            writer.close()
            del reader

    go(body())


def test_one_client_too_many_is_turned_away() -> None:
    async def body() -> None:
        async with pair(Tcp, listening=ListenerOptions(max_connections=1)) as it:
            assert await it.ask(b"one") == b"ONE"
            with pytest.raises(ConnectionLost):
                await it.ask(b"two", lane="two")
            assert await it.ask(b"one") == b"ONE"

    go(body())


def test_an_idle_client_is_closed_but_not_one_that_waits_for_an_answer() -> None:
    async def body() -> None:
        async with pair(Tcp, listening=ListenerOptions(idle_timeout_s=0.05)) as it:
            parked = asyncio.ensure_future(it.ask(b"park", lane="waits"))
            await it.ask(b"hello", lane="idles")
            await until(lambda: it.listener.connections == 1)
            assert not parked.done()
            it.front.gate.set()
            assert await parked == b"PARK"
            assert await it.ask(b"back", lane="idles") == b"BACK"

    go(body())


@pytest.mark.parametrize("network", NETWORKS)
def test_a_tap_can_replace_an_answer_lose_it_and_hang_up(network: Callable[[], Network]) -> None:
    async def tap(peer: Any, frame: Any, handle: Any) -> Any:
        answer = await handle(frame)
        if bytes(frame.body) == b"lose":
            peer.hang_up()
        if bytes(frame.body) == b"mute":
            return None
        return answer

    async def body() -> None:
        async with pair(network, tap=tap) as it:
            assert await it.ask(b"plain") == b"PLAIN"
            with pytest.raises(ConnectionLost):
                await it.ask(b"lose")
            with pytest.raises(RequestTimeout):
                await it.ask(b"mute", timeout_s=0.02)
            assert it.front.seen[-3:] == [b"lose", b"hello", b"mute"]

    go(body())


def test_a_length_that_lies_closes_the_connection_before_anything_is_allocated() -> None:
    async def body() -> None:
        async with pair(Tcp) as it:
            reader, writer = await asyncio.open_connection(*_address(it.listener))
            writer.write(b"\x7f\xff\xff\xff")
            assert await reader.read() == b""
            writer.close()
            assert await it.ask(b"others") == b"OTHERS"

    go(body())


def test_frames_cut_at_every_byte_are_put_together() -> None:
    async def body() -> None:
        async with pair(Tcp) as it:
            reader, writer = await asyncio.open_connection(*_address(it.listener))
            data = b"".join(b"".join(ask(word)(n)) for n, word in enumerate([b"a", b"", b"bcd" * 7_000]))
            for at in range(40):
                writer.write(data[at : at + 1])
                await asyncio.sleep(0)
            writer.write(data[40:])
            assert await reader.readexactly(len(data)) == _answers(data)
            writer.close()

    go(body())


def _answers(requests: bytes) -> bytes:
    from tests.unit.net.toy import HEAD, encode

    answers, at = b"", 0
    while at < len(requests):
        length, correlation, _ = HEAD.unpack_from(requests, at)
        text = requests[at + HEAD.size : at + 4 + length]
        answers += b"".join(encode(correlation, text.upper(), reply=True))
        at += 4 + length
    return answers


def _address(listener: Listener) -> tuple[str, int]:
    return listener.endpoint.host, listener.endpoint.port


@pytest.mark.parametrize("network", NETWORKS)
def test_the_first_of_several_answers_is_waited_for_and_no_longer_than_is_wanted(
    network: Callable[[], Network],
) -> None:
    async def body() -> None:
        async with pair(network, ordered=False) as it:
            connection = (await it.channel.link(it.listener.endpoint)).connection
            waiting = connection.start(ask(b"park it"), timeout_s=5.0)
            await it.channel.any_of([waiting], within_s=0.01)
            assert not waiting.answered
            quick = connection.start(ask(b"quick"), timeout_s=5.0)
            await it.channel.any_of([waiting, quick], within_s=5.0)
            assert (waiting.answered, quick.answered) == (False, True)
            assert bytes((await quick.reply()).body) == b"QUICK"
            connection.close()
            await it.channel.any_of([waiting], within_s=5.0)
            assert waiting.answered
            with pytest.raises(ConnectionLost):
                await waiting.reply()
            await it.channel.any_of([], within_s=0.01)

    go(body())
