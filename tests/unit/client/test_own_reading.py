"""A synchronous consumer receives records in the thread that polls, loses none and waits for nobody, whatever comes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.client import Consumer, Producer
from penstock.client.consumer import engine
from penstock.client.errors import WakeUp
from penstock.errors import Closed
from penstock.model import Partition
from penstock.net import asyncio_connection
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.unit.client.trickle import LONG_S, TOPIC, Trickle, own


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic(TOPIC, partitions=3)
        yield running


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer[bytes, bytes]]:
    with Producer(broker.address, linger_ms=0) as sending:
        yield sending


@pytest.fixture
def consumer(broker: Broker) -> Iterator[Consumer[bytes, bytes]]:
    with Consumer(broker.address) as reading:
        yield reading


@pytest.fixture
def trickle(producer: Producer[bytes, bytes], consumer: Consumer[bytes, bytes]) -> Trickle:
    running = Trickle(producer, consumer)
    running.until_lent()
    return running


def test_after_a_few_polls_the_loop_does_nothing_any_more(trickle: Trickle) -> None:
    loop = trickle.consumer._loop._loop
    fetcher = trickle.consumer._inner._engine.consumption.fetcher  # type: ignore[union-attr]
    heard: list[object] = []
    rounds = list(fetcher._in_flight.values())  # type: ignore[union-attr]
    assert len(rounds) == 1
    assert loop is not None
    before = rounds[0].heard
    for _ in range(100):
        trickle.one()
    assert list(fetcher._in_flight.values()) == rounds  # type: ignore[union-attr] # the same one, asked again and again
    assert rounds[0].heard is before
    assert not heard
    assert own(trickle.consumer).lent


def test_fetches_are_counted_wherever_they_are_received(trickle: Trickle) -> None:
    before = trickle.consumer.metrics()
    for _ in range(20):
        trickle.one()
    after = trickle.consumer.metrics()
    assert after.fetch.count - before.fetch.count >= 20
    assert after.records_total - before.records_total == 20


@pytest.mark.parametrize("partitions", [1, 3])
def test_much_at_once_goes_back_to_the_loop_and_little_comes_here_again(
    producer: Producer[bytes, bytes], consumer: Consumer[bytes, bytes], partitions: int
) -> None:
    trickle = Trickle(producer, consumer, partitions)
    for _ in range(3):
        trickle.until_lent()
        values = [b"%04d" % each + b"x" * 1_000 for each in range(300)]
        for value in values:
            producer.send(TOPIC, value, partition=0)
        producer.flush()
        trickle.read(values)
        trickle.read(trickle.send(40))


def test_polls_that_do_not_wait_see_what_is_there(trickle: Trickle) -> None:
    for _ in range(30):
        values = trickle.send()
        trickle.producer.flush()
        until = time.monotonic() + LONG_S
        while not (got := trickle.consumer.poll(0)):
            assert time.monotonic() < until
        assert [each.value for each in got] == values


def test_one_record_a_poll_of_many(trickle: Trickle) -> None:
    values = trickle.send(200)
    found = []
    while len(found) < len(values):
        found += [each.value for each in trickle.consumer.poll(LONG_S, max_records=1)]
    assert found == values


@pytest.mark.parametrize(("end", "error"), [(Consumer.wakeup, WakeUp), (Consumer.close, Closed)])
def test_another_thread_ends_the_wait(
    trickle: Trickle, end: Callable[[Consumer[bytes, bytes]], object], error: type[Exception]
) -> None:
    ending = threading.Timer(0.1, end, [trickle.consumer])
    ending.start()
    begun = time.monotonic()
    with pytest.raises(error):
        trickle.consumer.poll(LONG_S)
    ending.join(LONG_S)
    assert not ending.is_alive()
    assert time.monotonic() - begun < LONG_S / 2
    if error is WakeUp:
        trickle.one()


def test_closing_leaves_no_descriptor_open(broker: Broker, producer: Producer[bytes, bytes]) -> None:
    def descriptors() -> int:
        there = Path("/proc/self/fd")
        return len(list(there.iterdir())) if there.exists() else 0

    counts = []
    for _ in range(4):
        with Consumer(broker.address) as consumer:
            Trickle(producer, consumer).until_lent()
        counts.append(descriptors())
    comes_to(lambda: descriptors() <= counts[0], True)  # the broker closes its side when it likes


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_handler_that_raises_loses_nothing(trickle: Trickle, moment: str) -> None:
    """Between any two steps of receiving, of which the handler comes after one more each time."""
    read = next(iter(own(trickle.consumer)._reads.values()))[1]
    kind = type(read)
    receive, ask = kind.receive, kind.ask
    armed = [False]

    def fail() -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    def failing_receive(self: object) -> object:
        if moment == "before":
            fail()
        found = receive(self)  # type: ignore[arg-type]
        fail()
        return found

    kind.receive = failing_receive  # type: ignore[method-assign,assignment]
    try:
        for _ in range(3):
            armed[0] = True
            values = trickle.send()
            with pytest.raises(KeyboardInterrupt):
                trickle.consumer.poll(LONG_S)
            trickle.read(values)
            trickle.until_lent()
    finally:
        kind.receive, kind.ask = receive, ask  # type: ignore[method-assign]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a handler within a finalizer
def test_signals_that_raise_at_any_place_lose_nothing(trickle: Trickle) -> None:
    class Alarmed(Exception):
        pass

    def handler(*_: object) -> None:
        raise Alarmed

    before = signal.signal(signal.SIGALRM, handler)
    seen: list[bytes] = []
    alarms = 0
    try:
        for number in range(400):
            trickle.send()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.000_05 + number % 50 * 0.000_05)
                batch = trickle.consumer.poll(0.2)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarmed:
                alarms += 1
            else:
                seen += [each.value or b"" for each in batch]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    (last,) = trickle.send()
    until = time.monotonic() + LONG_S
    while last not in seen and time.monotonic() < until:
        seen += [each.value or b"" for each in trickle.consumer.poll(LONG_S)]
    assert seen[-1] == last  # reading goes on, whatever a poll had in hand when it was ended
    assert seen == sorted(set(seen), key=int)
    assert alarms > 10
    trickle.until_lent()


def test_a_server_that_hangs_up_is_found_again(trickle: Trickle, broker: Broker) -> None:
    for _ in range(3):
        broker.faults.drop("Fetch")
        for _ in range(10):
            trickle.read(trickle.send())
        trickle.until_lent()


def test_an_answer_with_an_error_is_dealt_with(trickle: Trickle, broker: Broker) -> None:
    for error in ("NOT_LEADER_OR_FOLLOWER", "FETCH_SESSION_ID_NOT_FOUND", "KAFKA_STORAGE_ERROR"):
        broker.faults.error("Fetch", error)
        for _ in range(10):
            trickle.read(trickle.send())
        trickle.until_lent()


def test_positions_that_the_application_changes_are_read_from(trickle: Trickle) -> None:
    zero, one = Partition(TOPIC, 0), Partition(TOPIC, 1)
    for _ in range(3):
        trickle.consumer.seek(zero, 0)
        trickle.read([b"%d" % each for each in range(trickle.sent)])
        trickle.until_lent()
    trickle.consumer.assign({zero: trickle.consumer.position(zero), one: 0})
    trickle.until_lent()
    trickle.consumer.pause([zero])
    place = trickle.consumer.position(zero)
    values = trickle.send(3)
    trickle.producer.send(TOPIC, b"1", partition=1)
    trickle.producer.flush()
    trickle.read([b"1"])
    assert trickle.consumer.position(zero) == place
    trickle.consumer.resume([zero])
    trickle.read(values)
    trickle.until_lent()
    trickle.consumer.assign({one: 0})
    trickle.read([b"1"])


def test_who_stays_away_for_long_is_no_silent_server(
    trickle: Trickle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What has come meanwhile is received by the loop, before anybody takes the server for silent."""
    connection = next(each for each in _connections(trickle.consumer) if each._lent is not None)
    values = trickle.send(3)
    trickle.producer.flush()
    ended = threading.Event()

    def look() -> None:
        for told in connection._pending.values():
            told.until = 0.0
        connection._ring()
        connection._looks()
        ended.set()

    trickle.consumer._loop._loop.call_soon_threadsafe(look)
    assert ended.wait(LONG_S)
    assert connection._lent is None
    trickle.read(values)
    assert not connection.closed
    assert not caplog.records
    trickle.until_lent()


def _connections(consumer: Consumer[bytes, bytes]) -> list[asyncio_connection.AsyncioConnection]:
    engine = consumer._inner._engine
    assert engine is not None
    return list(engine.client._channel._connections)  # type: ignore[attr-defined]


def test_automatic_commits_and_groups_go_on(broker: Broker, producer: Producer[bytes, bytes]) -> None:
    broker.create_topic("single", partitions=1)
    producer.send("single", b"-").result()
    with Consumer(f"{broker.address}/single", group="g", enable_auto_commit=True, auto_commit_interval_ms=50) as it:
        place, sent, committed = Partition("single", 0), 1, None
        assert it.poll(LONG_S)
        until = time.monotonic() + LONG_S
        while (committed is None or committed.offset < 100) and time.monotonic() < until:
            producer.send("single", b"%d" % sent)
            assert [each.value for each in it.poll(LONG_S)] == [b"%d" % sent]
            sent += 1
            if not sent % 50:
                committed = it.committed([place])[place]
        assert committed is not None
        assert 100 <= committed.offset < sent


def test_a_broker_that_is_killed_while_a_poll_waits(tmp_path: Path) -> None:
    with Broker(f"file:{tmp_path}") as broker:
        broker.create_topic(TOPIC, partitions=1)
        with Producer(broker.address, linger_ms=0) as producer, Consumer(broker.address) as consumer:
            trickle = Trickle(producer, consumer)
            for _ in range(2):
                trickle.until_lent()

                def again() -> None:
                    broker.kill()
                    broker.start()
                    trickle.send()

                thread = threading.Timer(0.1, again)
                thread.start()
                trickle.read([b"%d" % trickle.sent])
                thread.join(LONG_S)


def test_a_record_that_an_interrupted_poll_has_received_is_the_next_ones(trickle: Trickle) -> None:
    consumer = trickle.consumer
    engine = consumer._inner._engine
    assert engine is not None
    place = Partition(TOPIC, 0)
    for _ in range(3):
        position = consumer.position(place)
        values = trickle.send()
        assert engine.wait_here(engine.now() + LONG_S)  # as far as the poll had come
        assert own(consumer).single_record.held is not None
        assert consumer.position(place) == position
        trickle.read(values)
    (before,) = trickle.send()
    assert engine.wait_here(engine.now() + LONG_S)
    consumer.seek(place, position)
    trickle.read([*values, before])  # once, from where the application went


def test_who_reads_much_is_lent_nothing(producer: Producer[bytes, bytes], consumer: Consumer[bytes, bytes]) -> None:
    trickle = Trickle(producer, consumer)
    for _ in range(20):
        values = [b"%04d" % each + b"x" * 1_000 for each in range(100)]
        producer.send_batch(TOPIC, pa.table({"value": values, "partition": pa.array([0] * 100, pa.int32())}))  # at once
        trickle.read(values)
        if consumer._inner._engine is not None and consumer._inner._engine._here._own is not None:
            assert not own(consumer).lent
    assert not trickle.sent


@pytest.mark.parametrize("what", ["dup", "socketpair"])
def test_without_room_for_another_descriptor_reading_goes_on(
    producer: Producer[bytes, bytes], consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    asked = threading.Event()

    def refuse(*_: object) -> None:
        asked.set()
        raise OSError(24, "Too many open files")

    trickle = Trickle(producer, consumer)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio_connection.os if what == "dup" else engine.socket, what, refuse)
        for _ in range(30):
            trickle.one()
        assert asked.is_set()
        assert not own(consumer).lent
    trickle.until_lent()
