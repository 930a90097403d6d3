"""Metrics as an OpenTelemetry SDK reads them: every field of a snapshot, with units, of clients that come and go."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from penstock import Consumer, ConsumerMetrics, MissingExtra, Producer, ProducerMetrics
from penstock.client.opentelemetry import INSTRUMENTS, OpenTelemetryMetrics
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.eventually import comes_to

sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="the SDK wants a newer API than the oldest")
export = pytest.importorskip("opentelemetry.sdk.metrics.export")

ADDRESS = "fake://h:1"


class Collected:
    """What a reader of the SDK has: ``value(name, **attributes)``."""

    def __init__(self) -> None:
        self._reader = export.InMemoryMetricReader()
        self._provider = sdk.MeterProvider([self._reader], shutdown_on_exit=False)
        self.meter = self._provider.get_meter("test")

    def now(self) -> dict[str, Any]:
        found = self._reader.get_metrics_data()
        scopes = [scope for resource in found.resource_metrics for scope in resource.scope_metrics] if found else []
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def values(self, name: str) -> dict[frozenset[tuple[str, object]], float]:
        metric = self.now().get(name)
        points = metric.data.data_points if metric else ()
        return {frozenset(point.attributes.items()): point.value for point in points}

    def value(self, name: str, **attributes: object) -> float:
        return self.values(name)[frozenset(attributes.items())]

    def end(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.end()


def test_each_field_of_a_snapshot_has_its_instrument() -> None:
    for of, instruments in INSTRUMENTS.items():
        assert {each.field for each in instruments} == {each.name for each in fields(of)}
        assert len({each.name for each in instruments}) == len(instruments)
        prefix = {ConsumerMetrics: "penstock.consumer.", ProducerMetrics: "penstock.producer."}[of]
        assert all(each.name.startswith(prefix) for each in instruments)


def test_a_reader_of_the_sdk_gets_them_with_kinds_units_and_attributes(log: FakeLog, collected: Collected) -> None:
    log.write("t", [b"a"] * 3)
    metrics = OpenTelemetryMetrics(collected.meter)
    assert collected.now() == {}
    consumer = Consumer(f"{ADDRESS}/t", group="g", heartbeat_interval_ms=10)
    with Producer(ADDRESS) as producer, consumer:
        metrics.observe(producer, {"messaging.client.id": "p"})
        metrics.observe(consumer, {"messaging.client.id": "c"})
        producer.send("t4", b"x").result(5)
        consumer.poll(5, max_records=2)
        comes_to(lambda: consumer.metrics().heartbeat.count > 0, True)
        found = collected.now()
        me = {"messaging.client.id": "c"}
        assert collected.value("penstock.consumer.records", **me) == 2
        assert collected.value("penstock.consumer.poll.count", **me) == 1
        snapshot = consumer.metrics()
        assert collected.value("penstock.consumer.fetch.time", **me) == snapshot.fetch.total_ms / 1_000
        assert collected.value("penstock.consumer.fetch.longest", **me) == snapshot.fetch.max_ms / 1_000
        assert collected.value("penstock.consumer.fetched", **me) == snapshot.fetched_bytes_total > 0
        assert 0 <= collected.value("penstock.consumer.last_poll", **me) < 60
        place = {"messaging.destination.name": "t", "messaging.destination.partition.id": "0"}
        assert collected.value("penstock.consumer.lag", **me, **place) == 1
        assert collected.value("penstock.producer.records.stored", **{"messaging.client.id": "p"}) == 1
    every = [each for instruments in INSTRUMENTS.values() for each in instruments]
    assert {*found} == {each.name for each in every}
    for each in every:
        metric = found[each.name]
        assert (metric.unit, metric.description) == (each.unit, each.about)
        kind = type(metric.data).__name__
        assert kind == ("Gauge" if each.kind.value == "Gauge" else "Sum"), each
        assert kind == "Gauge" or metric.data.is_monotonic is (each.kind.value == "Counter"), each


def test_what_no_poll_has_told_is_not_there(log: FakeLog, collected: Collected) -> None:
    del log
    metrics = OpenTelemetryMetrics(collected.meter)
    with Consumer(f"{ADDRESS}/t", group="g") as consumer:
        metrics.observe(consumer)
        assert {"penstock.consumer.last_poll", "penstock.consumer.lag"}.isdisjoint(collected.now())
        assert collected.value("penstock.consumer.records") == 0


def test_one_is_told_of_until_it_is_forgotten_or_gone(log: FakeLog, collected: Collected) -> None:
    del log
    metrics = OpenTelemetryMetrics(collected.meter)
    kept, dropped = Producer(ADDRESS), Producer(ADDRESS)
    for number, each in enumerate((kept, dropped)):
        metrics.observe(each, {"n": number})
        each.send("t", b"x").result(5)
        each.close()
    assert collected.values("penstock.producer.records.stored") == {frozenset({("n", n)}): 1 for n in (0, 1)}
    del dropped, each
    gc.collect()
    assert collected.values("penstock.producer.records.stored") == {frozenset({("n", 0)}): 1}
    metrics.forget(kept)
    metrics.forget(kept)
    assert collected.now() == {}


@pytest.mark.parametrize("scheme", ["tubemq", "rocketmq"])
def test_clients_of_the_other_protocols_are_read_alike(scheme: str, collected: Collected) -> None:
    metrics = OpenTelemetryMetrics(collected.meter)
    with Broker(listen=["kafka://127.0.0.1:0", f"{scheme}://127.0.0.1:0"]) as node:
        node.create_topic("flights")
        address = node.url(scheme)
        with Producer(address) as producer, Consumer(f"{address}/flights", group="measured") as consumer:
            metrics.observe(producer)
            metrics.observe(consumer)
            producer.send("flights", b"x").result(30)
            assert len(consumer.poll(30)) == 1
            assert collected.value("penstock.producer.records.stored") == 1
            assert collected.value("penstock.consumer.records") == 1


def test_without_the_library_somebody_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("opentelemetry", "opentelemetry.metrics"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "penstock.client.opentelemetry")
    with pytest.raises(MissingExtra, match=r"needs opentelemetry: pip install 'penstock\[opentelemetry\]'"):
        importlib.import_module("penstock.client.opentelemetry")
