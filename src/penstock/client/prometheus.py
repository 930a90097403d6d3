"""Clients' metrics for ``prometheus_client``, which the extra ``metrics`` brings. Import it only where you use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Final, Protocol

from penstock.client.metrics import ConsumerMetrics, ProducerMetrics, Timing
from penstock.extras import need

try:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    need("metrics", "penstock.client.prometheus")
    raise

__all__ = ["Measured", "PrometheusCollector"]

_MS: Final = 1_000.0


class Measured(Protocol):
    """A consumer or a producer, synchronous or asynchronous."""

    def metrics(self) -> ConsumerMetrics | ProducerMetrics:
        """A snapshot."""
        ...


class PrometheusCollector(Collector):
    """A client's metrics for ``prometheus_client``, read at each scrape. Needs the extra ``metrics``.

    Counters end in ``_total``, times are seconds. ``labels`` distinguish the clients of one process.

    >>> prometheus_client.REGISTRY.register(PrometheusCollector(consumer, client="stats"))    # doctest: +SKIP
    """

    def __init__(self, client: Measured, /, **labels: str) -> None:
        self._client = client
        self._labels = labels

    def describe(self) -> Iterable[Metric]:
        """Empty: the metrics depend on the client."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The present snapshot as Prometheus metrics."""
        found = self._client.metrics()
        kind = "consumer" if isinstance(found, ConsumerMetrics) else "producer"
        names, values = list(self._labels), list(self._labels.values())

        def one(family: type[CounterMetricFamily] | type[GaugeMetricFamily], name: str, value: float) -> Metric:
            made = family(f"penstock_{kind}_{name}", f"{name} of penstock.client.metrics", labels=names)
            made.add_metric(values, value)
            return made

        for each in fields(found):
            value = getattr(found, each.name)
            if isinstance(value, Timing):
                yield one(CounterMetricFamily, f"{each.name}s", value.count)
                yield one(CounterMetricFamily, f"{each.name}_seconds", value.total_ms / _MS)
                yield one(GaugeMetricFamily, f"{each.name}_seconds_max", value.max_ms / _MS)
            elif each.name.endswith("_total"):
                yield one(CounterMetricFamily, each.name, value)
            elif each.name.endswith("_ms_ago"):
                if value is not None:
                    yield one(GaugeMetricFamily, each.name.replace("_ms_", "_seconds_"), value / _MS)
            elif each.name != "lag":
                yield one(GaugeMetricFamily, each.name, value)
        if isinstance(found, ConsumerMetrics):
            lag = GaugeMetricFamily(
                f"penstock_{kind}_records_lag", "records behind the end", labels=[*names, "topic", "partition", "node"]
            )
            for place, behind in found.lag.items():
                lag.add_metric([*values, place.topic, str(place.id), place.node], behind)
            yield lag
