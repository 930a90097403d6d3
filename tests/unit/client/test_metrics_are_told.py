"""``on_metrics``: a function of the application hears what its client measured, and can do the client no harm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    AsyncConsumer,
    AsyncProducer,
    CallbackFailure,
    ConfigError,
    Consumer,
    ConsumerMetrics,
    Producer,
    ProducerMetrics,
)
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.eventually import comes_to
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
GRACE_S = 30.0


class Heard:
    """Keeps what it is called with, and in which thread; ``often`` is there after so many calls."""

    def __init__(self, often: int = 3) -> None:
        self.snapshots: list[Any] = []
        self.threads: set[threading.Thread] = set()
        self.enough = threading.Event()
        self._often = often

    def __call__(self, snapshot: object) -> None:
        self.snapshots.append(snapshot)
        self.threads.add(threading.current_thread())
        if len(self.snapshots) == self._often:
            self.enough.set()

    def anew(self) -> None:
        """Begin to count again."""
        self.enough.clear()
        self.snapshots.clear()


def test_an_asynchronous_consumer_tells_from_its_first_use_to_its_end(log: FakeLog) -> None:
    log.write("t", [b"a"] * 5)
    told: list[ConsumerMetrics] = []

    async def main() -> None:
        consumer = AsyncConsumer(f"{ADDRESS}/t", group="g", on_metrics=told.append, metrics_interval_ms=1_000)
        await passing(5)
        assert told == []
        await consumer.poll(1, max_records=5)
        await passing(3.5)
        assert [round(each.seconds) for each in told] == [1, 2, 3]
        assert [each.records_total for each in told] == [5, 5, 5]
        assert told[1].since(told[0]).records_total == 0
        await consumer.close()
        await passing(5)
        assert len(told) == 3

    run(main())


def test_a_coroutine_that_takes_long_is_not_begun_twice_and_may_close_its_producer(log: FakeLog) -> None:
    del log
    told: list[ProducerMetrics] = []

    async def main() -> None:
        async def slow(snapshot: ProducerMetrics) -> None:
            told.append(snapshot)
            await passing(2.5)
            if len(told) == 3:
                await producer.close()
                closed.set()

        closed = asyncio.Event()
        async with AsyncProducer(ADDRESS, on_metrics=slow, metrics_interval_ms=1_000) as producer:
            await (await producer.send("t", b"x"))
            await asyncio.wait_for(closed.wait(), GRACE_S)
        assert [round(each.seconds) for each in told] == [1, 4, 7]
        assert {each.record_send_total for each in told} == {1}

    run(main())


def test_one_that_raises_is_told_and_called_again(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    del log
    failures: list[CallbackFailure] = []

    def broken(snapshot: ConsumerMetrics) -> None:
        raise KeyError("mine")

    async def main() -> None:
        async with AsyncConsumer(
            f"{ADDRESS}/t", group="g", on_metrics=broken, metrics_interval_ms=1_000, on_callback_error=failures.append
        ) as consumer:
            assert not await consumer.poll(2.5)

    run(main())
    assert [(repr(each.error), each.callback, each.topics) for each in failures] == [
        ("KeyError('mine')", broken, ())
    ] * 2
    (first, _) = failures
    assert isinstance(first.arguments[0], ConsumerMetrics)
    lines = [line.getMessage() for line in caplog.records if "callback" in line.getMessage()]
    assert [line.endswith("broken raised: KeyError('mine')") for line in lines] == [True, True]


@pytest.mark.parametrize("scheme", ["kafka", "tubemq", "rocketmq"])
def test_synchronous_clients_of_every_protocol_tell_in_a_thread_of_their_own(scheme: str) -> None:
    with Broker(listen=[f"{each}://127.0.0.1:0" for each in ("kafka", "tubemq", "rocketmq")]) as node:
        node.create_topic("flights")
        sent, read = Heard(), Heard()
        address = node.url(scheme)
        with Producer(address, on_metrics=sent, metrics_interval_ms=5) as producer:
            producer.send("flights", b"a").result(GRACE_S)
            sent.anew()
            assert sent.enough.wait(GRACE_S)
        with Consumer(f"{address}/flights", group="measured", on_metrics=read, metrics_interval_ms=5) as consumer:
            assert len(consumer.poll(GRACE_S)) == 1
            read.anew()
            assert read.enough.wait(GRACE_S)  # while nobody polls
    assert isinstance(sent.snapshots[-1], ProducerMetrics)
    assert sent.snapshots[-1].record_send_total == 1
    assert isinstance(read.snapshots[-1], ConsumerMetrics)
    assert read.snapshots[-1].records_total == 1
    for thread in sent.threads | read.threads:
        assert thread.name == "penstock callbacks"
        comes_to(thread.is_alive, False)


def test_one_that_hangs_holds_up_neither_records_nor_close(log: FakeLog) -> None:
    del log
    begun, let_go = threading.Event(), threading.Event()

    def hanging(snapshot: ProducerMetrics) -> None:
        begun.set()
        let_go.wait(GRACE_S)

    try:
        with Producer(ADDRESS, on_metrics=hanging, metrics_interval_ms=1) as producer:
            assert begun.wait(GRACE_S)
            called = threading.Event()
            producer.send("t", b"x").add_done_callback(lambda _: called.set())
            producer.flush(GRACE_S)
            assert called.is_set()
    finally:
        let_go.set()


def test_it_is_never_called_where_the_interval_is_nothing(log: FakeLog) -> None:
    del log
    told: list[ProducerMetrics] = []

    async def main() -> None:
        async with AsyncProducer(ADDRESS, metrics_interval_ms=0, on_metrics=told.append) as producer:
            await (await producer.send("t", b"x"))
            await passing(3_600)

    run(main())
    assert told == []


@pytest.mark.parametrize("kind", [Producer, AsyncProducer, Consumer, AsyncConsumer])
def test_what_cannot_be_called_is_refused_by_name(log: FakeLog, kind: Callable[..., object]) -> None:
    del log
    with pytest.raises(ConfigError, match="on_metrics must be a function of one snapshot"):
        kind(ADDRESS, on_metrics="x")
    with pytest.raises(ConfigError, match=r"on_metrics=…"):
        kind("kafka://h:1", stats_cb=print)
