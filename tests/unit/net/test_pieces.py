"""The parts under the transports: receiving in any pieces, writing in few, waiting before another attempt."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Closed, ConnectionLost, ProtocolViolation
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.buffers import ReceiveBuffer, allocate, join_small
from penstock.net.connecting import EndpointBackoff, TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from tests.unit.net.toy import ToyDialect, ToyFraming, ToyFront, ask, encode, turn_the_loop, until

HERE = Endpoint("here", 1)
sizes = st.lists(st.one_of(st.integers(0, 50), st.integers(10_000, 70_000)), max_size=8)


@given(sizes, st.lists(st.integers(1, 40_000), min_size=1, max_size=20))
def test_frames_are_the_same_however_the_stream_is_cut(lengths: list[int], reads: list[int]) -> None:
    bodies = [bytes([n]) * length for n, length in enumerate(lengths)]
    stream = b"".join(b"".join(encode(n, body, reply=True)) for n, body in enumerate(bodies))
    intake, found, at, turn = ReceiveBuffer(ToyFraming()), [], 0, 0
    while at < len(stream):
        space = intake.space()
        assert len(space) > 0
        count = min(len(space), reads[turn % len(reads)], len(stream) - at)
        space[:count] = stream[at : at + count]
        at, turn = at + count, turn + 1
        found += list(intake.received(count))
    # Bodies are looked at only now: none may have been overwritten by what came later.
    assert [(frame.correlation, bytes(frame.body)) for frame in found] == list(enumerate(bodies))


def test_frames_before_a_violation_are_still_delivered() -> None:
    intake = ReceiveBuffer(ToyFraming())
    stream = b"".join(encode(1, b"good", reply=True)) + b"\xff\xff\xff\xff"
    intake.space()[: len(stream)] = stream
    frames = intake.received(len(stream))
    assert bytes(next(frames).body) == b"good"
    with pytest.raises(ProtocolViolation):
        next(frames)


@given(st.lists(st.binary(max_size=30) | st.integers(65_000, 70_000).map(bytes), max_size=12))
def test_large_buffers_are_written_as_they_are(buffers: list[bytes]) -> None:
    pieces = list(join_small(buffers))
    assert b"".join(pieces) == b"".join(buffers)
    large = [each for each in buffers if len(each) >= 65_536]
    assert all(any(piece is each for piece in pieces) for each in large)
    assert len(pieces) <= 2 * len(large) + 1


@pytest.mark.parametrize("count", [1, 65_535, 65_536, 5_000_000])
def test_allocated_bytes_can_be_written(count: int) -> None:
    room = allocate(count)
    room[-1:] = b"x"
    assert (len(room), room.format, room.readonly) == (count, "B", False)


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 40))
def test_attempts_get_rarer_up_to_a_second_and_a_success_forgets(dice: float, failures: int) -> None:
    backoff = EndpointBackoff(TransportOptions())
    assert backoff.delay(HERE, 100.0) == 0
    for _ in range(failures):
        backoff.failed(HERE, 100.0, dice)
    expected = min(1.0, 0.05 * 2 ** (failures - 1))
    assert 0.799 * expected <= backoff.delay(HERE, 100.0) <= 1.201 * expected
    assert backoff.delay(HERE, 102.0) == 0
    assert backoff.delay(Endpoint("there", 1), 100.0) == 0
    backoff.succeeded(HERE)
    assert backoff.delay(HERE, 100.0) == 0


def test_one_attempt_is_shared_by_all_who_wait_for_it() -> None:
    async def body() -> None:
        network, front = MemoryNetwork(), ToyFront()
        listener = await serve(front, Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)
        first, *others = [asyncio.ensure_future(channel.link(listener.endpoint)) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        links = await asyncio.gather(*others)
        assert len(set(map(id, links))) == 1
        assert front.seen == [b"hello"]
        await channel.close()
        await listener.close()

    asyncio.run(body())


def test_closing_the_channel_ends_attempts_that_hang() -> None:
    async def body() -> None:
        network, front = MemoryNetwork(), ToyFront()

        async def mute(peer: object, frame: object, handle: object) -> None:
            return None

        listener = await serve(front, Endpoint("node", 0), network=network, tap=mute)
        channel = AsyncioChannel(ToyDialect(), network=network)
        waiting = asyncio.ensure_future(channel.link(listener.endpoint))
        await until(lambda: listener.connections == 1)
        await turn_the_loop()
        await channel.close()
        with pytest.raises(Closed):
            await waiting
        await until(lambda: listener.connections == 0)
        await listener.close()

    asyncio.run(body())


def test_a_greeting_that_takes_too_long_is_no_connection() -> None:
    async def body() -> None:
        network, front = MemoryNetwork(), ToyFront()

        async def mute(peer: object, frame: object, handle: object) -> None:
            return None

        listener = await serve(front, Endpoint("node", 0), network=network, tap=mute)
        options = TransportOptions(connect_timeout_s=0.01)
        channel = AsyncioChannel(ToyDialect(), network=network, options=options)
        with pytest.raises(ConnectionLost, match=r"not ready within 0\.01 s"):
            await channel.link(listener.endpoint)
        await until(lambda: listener.connections == 0)
        await channel.close()
        await listener.close()

    asyncio.run(body())


@pytest.mark.parametrize("endpoint", [Endpoint("h" * 300, 1), Endpoint("127.0.0.1", 99_999), Endpoint("a\0b", 1)])
def test_an_address_that_is_none_is_no_connection(endpoint: Endpoint) -> None:
    async def body() -> None:
        channel = AsyncioChannel(ToyDialect())
        with pytest.raises(ConnectionLost, match="cannot connect"):
            await channel.link(endpoint)
        await channel.close()

    asyncio.run(body())


def test_an_idle_connection_is_remade_before_its_next_request() -> None:
    async def body() -> None:
        network, front = MemoryNetwork(), ToyFront()
        listener = await serve(front, Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network, options=TransportOptions(idle_timeout_s=-1))
        first = await channel.link(listener.endpoint)
        second = await channel.link(listener.endpoint)
        assert first is not second
        assert first.connection.closed
        await channel.close()
        await listener.close()

    asyncio.run(body())


def test_requests_that_wait_for_a_connection_are_written_in_the_order_they_were_made() -> None:
    async def body() -> None:
        network, front = MemoryNetwork(), ToyFront()
        listener = await serve(front, Endpoint("node", 0), network=network)
        channel = AsyncioChannel(ToyDialect(), network=network)

        async def ask_number(number: int) -> None:
            link = await channel.link(listener.endpoint)
            await link.connection.call(ask(b"%d" % number), timeout_s=5)

        # One more in each turn of the loop, so that some ask before, some while and some after it opens.
        asked = []
        for number in range(60):
            asked.append(asyncio.ensure_future(ask_number(number)))
            await asyncio.sleep(0)
        await asyncio.gather(*asked)
        assert front.seen == [b"hello", *(b"%d" % number for number in range(60))]
        await channel.close()
        await listener.close()

    asyncio.run(body())


def test_requests_that_wait_for_the_window_are_written_in_the_order_they_were_made() -> None:
    async def body() -> None:
        network, front = MemoryNetwork(), ToyFront()
        listener = await serve(front, Endpoint("node", 0), network=network)
        options = TransportOptions(write_high_water_bytes=1_000)
        channel = AsyncioChannel(ToyDialect(), network=network, options=options)
        connection = (await channel.link(listener.endpoint)).connection
        asked = []
        for number in range(60):
            word = b"%02d" % number + bytes(400)
            asked.append(asyncio.ensure_future(connection.call(ask(word), timeout_s=5)))
            if number % 6 > 3:  # bursts shut the window, single ones arrive just when it opens
                await asyncio.sleep(0)
        await asyncio.gather(*asked)
        assert [int(word[:2]) for word in front.seen[1:]] == list(range(60))
        await channel.close()
        await listener.close()

    asyncio.run(body())


def test_those_who_waited_for_an_attempt_share_its_failure() -> None:
    async def body() -> None:
        attempts = 0

        class Nowhere(MemoryNetwork):
            async def connect(self, factory: object, endpoint: Endpoint) -> None:
                nonlocal attempts
                attempts += 1
                await asyncio.sleep(0)
                raise ConnectionRefusedError("as the test wants")

        channel = AsyncioChannel(ToyDialect(), network=Nowhere())
        results = await asyncio.gather(*(channel.link(HERE) for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLost] * 5
        assert attempts == 1
        await channel.close()

    asyncio.run(body())
