"""Metrics: what clients count as they go, as snapshots, as spans between two, and as Prometheus reads them."""

from __future__ import annotations

import asyncio
import importlib
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock import (
    AsyncConsumer,
    AsyncProducer,
    ConnectionLost,
    Consumer,
    ConsumerMetrics,
    MissingExtra,
    Partition,
    Producer,
    ProducerMetrics,
    ServerError,
    Timing,
)
from penstock.client.prometheus import PrometheusCollector
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
ZERO = Partition("t", 0)


def test_a_consumer_counts_what_it_does(log: FakeLog) -> None:
    log.write("t", [b"a"] * 10)

    async def main() -> ConsumerMetrics:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", heartbeat_interval_ms=10) as consumer:
            assert consumer.metrics() == ConsumerMetrics(seconds=consumer.metrics().seconds)
            first = await consumer.poll(5, max_records=4)
            before = consumer.metrics()
            assert (before.records_total, before.rebalance.count, before.assigned_partitions) == (4, 1, 1)
            assert before.lag == {ZERO: 6}
            assert before.records_lag_max == 6
            assert before.buffered_bytes == before.fetched_bytes_total > 0
            assert before.fetch.count == 1
            await passing(3)
            await consumer.commit(first)
            assert not before.commit.count
            while await consumer.poll(1):
                pass
            after = consumer.metrics()
            span = after.since(before)
            assert (span.records_total, span.commit.count, span.rebalance.count) == (6, 1, 0)
            assert 2_999 <= span.between_polls.total_ms < 3_100
            assert span.between_polls.max_ms == after.between_polls.max_ms
            assert 999 <= span.poll.total_ms < 1_100
            assert 0.2 < span.poll_idle_ratio < 0.3
            assert 4 <= span.seconds < 4.2
            assert span.records_consumed_rate == 6 / span.seconds
            assert span.lag == {ZERO: 0}
            assert 390 <= span.heartbeat.count <= 410  # one in ten milliseconds
            assert after.last_heartbeat_ms_ago is not None
            assert 0 <= after.last_heartbeat_ms_ago <= 11
        return consumer.metrics()

    closed = run(main())
    assert (closed.records_total, closed.assigned_partitions, closed.commit.count) == (10, 0, 1)


def test_fetches_and_joins_that_fail_are_counted_apart(log: FakeLog) -> None:
    log.write("t", [b"a"])
    log.faults["read"].extend([ConnectionLost("gone")] * 3)
    log.faults["join"].append(ServerError("no", code=15, name="COORDINATOR_NOT_AVAILABLE", retriable=True))

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g") as consumer:
            with pytest.raises(ServerError):
                await consumer.poll(5)
            while not await consumer.poll(5):
                pass
            found = consumer.metrics()
            assert (found.fetch_failed_total, found.fetch.count) == (3, 1)
            assert (found.rebalance_failed_total, found.rebalance.count) == (1, 1)

    run(main())


def test_a_producer_counts_what_it_does(log: FakeLog) -> None:
    async def main() -> ProducerMetrics:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            assert producer.metrics().request.count == 0
            log.faults["send"].append(ConnectionLost("gone"))
            for _ in range(3):
                await producer.send("t", b"x" * 100)
            assert producer.metrics().buffer_bytes > 300
            await producer.flush()
            log.faults["send"].append(ServerError("never", code=87, name="INVALID_RECORD"))
            await producer.send("t", b"y")
            with pytest.raises(ServerError):
                await producer.flush()
            await producer.send("t", b"z", partition=7)
            with pytest.raises(Exception, match="no partition 7"):
                await producer.flush()
            found = producer.metrics()
            assert (found.record_send_total, found.record_retry_total, found.record_error_total) == (3, 3, 2)
            assert (found.batches_total, found.request.count, found.requests_in_flight) == (1, 3, 0)
            assert found.batch_size_avg_bytes == found.batch_bytes_total > 300
            assert found.records_per_request_avg == 1
            assert found.buffer_bytes == 0
        return producer.metrics()

    assert run(main()).record_send_total == 3


def test_a_group_of_tubemq_counts_batches_and_confirmations() -> None:
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as node:
        node.create_topic("t")
        with Producer(node.address) as producer:
            producer.send("t", b"a").result(10)
        with Consumer(f"{node.url('tubemq')}/t", group="counting") as consumer:
            consumer.commit(consumer.poll(20))
            found = consumer.metrics()
    assert (found.records_total, found.commit.count) == (1, 1)
    assert found.fetch.count >= 1
    assert found.fetched_bytes_total > 0


def test_averages_of_nothing_are_nothing() -> None:
    assert Timing().avg_ms == ConsumerMetrics().poll_idle_ratio == ConsumerMetrics().fetch_size_avg_bytes == 0
    assert ProducerMetrics().record_send_rate == ProducerMetrics().batch_size_avg_bytes == 0
    assert ConsumerMetrics().records_lag_max is None
    assert Timing(4, 10.0, 7.0).since(Timing(2, 4.0, 3.0)) == Timing(2, 6.0, 7.0)


def test_prometheus_reads_them(log: FakeLog) -> None:
    log.write("t", [b"a"] * 3)
    registry = CollectorRegistry()
    with Producer(ADDRESS) as producer, Consumer(f"{ADDRESS}/t", group="g") as consumer:
        registry.register(PrometheusCollector(consumer, client="c"))
        registry.register(PrometheusCollector(producer, client="p"))
        producer.send("t4", b"x").result(5)
        consumer.poll(5, max_records=2)
        text = generate_latest(registry).decode()
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["penstock_consumer_records_total", (("client", "c"),)] == 2
    assert found["penstock_consumer_polls_total", (("client", "c"),)] == 1
    assert found["penstock_producer_record_send_total", (("client", "p"),)] == 1
    lag = ("penstock_consumer_records_lag", (("client", "c"), ("node", ""), ("partition", "0"), ("topic", "t")))
    assert found[lag] == 1
    assert {name for name, _ in found if "last_poll" in name} == {"penstock_consumer_last_poll_seconds_ago"}


def test_without_the_library_somebody_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("prometheus_client", "prometheus_client.metrics_core"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "penstock.client.prometheus")
    with pytest.raises(MissingExtra, match=r"penstock\[metrics\]"):
        importlib.import_module("penstock.client.prometheus")


def test_they_may_be_read_from_any_thread_while_a_poll_waits(log: FakeLog) -> None:
    del log

    async def main() -> None:
        with Consumer(f"{ADDRESS}/t", group="g") as consumer:
            polling = asyncio.get_running_loop().run_in_executor(None, consumer.poll, 1.0)
            while not polling.done():
                assert consumer.metrics().records_total == 0
                await asyncio.wait([polling], timeout=0.02)
            assert consumer.metrics().poll.count == 1

    asyncio.run(main())
