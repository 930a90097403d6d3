"""Clients' metrics for OpenTelemetry, whose API the extra ``opentelemetry`` brings. Import it only where you use it.

The instruments are observable: the SDK's reader asks, and each answer is made from snapshots of
`penstock.client.metrics`. They are one table, from which docs/clients/metrics.md is written. Names, units and kinds
follow OpenTelemetry's "Metrics semantic conventions" (1.x): no unit in a name, UCUM units, and a sum for each value
that may be added up over clients.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from penstock.client.metrics import ConsumerMetrics, ProducerMetrics, Timing
from penstock.extras import need

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
except ImportError:
    need("opentelemetry", "penstock.client.opentelemetry")
    raise

__all__ = ["INSTRUMENTS", "Attributes", "Instrument", "Kind", "Measured", "OpenTelemetryMetrics"]

Attributes: TypeAlias = Mapping[str, str | bool | int | float]
Snapshot: TypeAlias = ConsumerMetrics | ProducerMetrics

_S: Final = 1_000.0


class Measured(Protocol):
    """A consumer or a producer, synchronous or asynchronous."""

    def metrics(self) -> Snapshot:
        """A snapshot."""
        ...

    def __hash__(self) -> int: ...


class Kind(enum.Enum):
    """OpenTelemetry's observable instruments."""

    COUNTER = "Counter"
    UP_DOWN_COUNTER = "UpDownCounter"
    GAUGE = "Gauge"


class Instrument(NamedTuple):
    """One instrument and the snapshot field that it shows; ``read`` computes its value, None where there is none."""

    name: str
    kind: Kind
    unit: str
    about: str
    field: str
    read: Callable[[object], float | None]

    def observed(self, snapshot: Snapshot, attributes: Attributes) -> Iterator[Observation]:
        """The observations of one client."""
        found = getattr(snapshot, self.field)
        if self.field == "lag":
            for place, behind in found.items():
                topic = {"messaging.destination.name": place.topic, "messaging.destination.partition.id": str(place.id)}
                node = {"penstock.node": place.node} if place.node else {}
                yield Observation(behind, {**attributes, **topic, **node})
        elif (value := self.read(found)) is not None:
            yield Observation(value, attributes)


class OpenTelemetryMetrics:
    """Clients' metrics as OpenTelemetry's observable instruments, read whenever a reader of the SDK asks.

    Create one per process for any number of clients: an instrument can be created only once and never removed.
    ``meter`` defaults to that of the global provider. A client is observed until `forget`, or until it is
    garbage-collected; a closed client reports its last counters.

    >>> OpenTelemetryMetrics().observe(consumer, {"messaging.client.id": "stats"})          # doctest: +SKIP
    """

    def __init__(self, meter: Meter | None = None) -> None:
        self._clients: WeakKeyDictionary[Measured, Attributes] = WeakKeyDictionary()
        self._changing = threading.Lock()  # readers ask in their own threads
        meter = meter or get_meter("penstock")
        makers = {
            Kind.COUNTER: meter.create_observable_counter,
            Kind.UP_DOWN_COUNTER: meter.create_observable_up_down_counter,
            Kind.GAUGE: meter.create_observable_gauge,
        }
        for of, instruments in INSTRUMENTS.items():
            for each in instruments:
                callback = partial(self._observed, of, each)
                makers[each.kind](each.name, [callback], unit=each.unit, description=each.about)

    def observe(self, client: Measured, attributes: Attributes | None = None) -> None:
        """Observe this consumer or producer from now on.

        ``attributes`` distinguish clients: no two may have equal ones.
        """
        with self._changing:
            self._clients[client] = dict(attributes or {})

    def forget(self, client: Measured) -> None:
        """Stop observing it; harmless if it was not observed."""
        with self._changing:
            self._clients.pop(client, None)

    def _observed(self, of: type[Snapshot], instrument: Instrument, options: CallbackOptions) -> list[Observation]:
        del options
        found: list[Observation] = []
        with self._changing:
            clients = list(self._clients.items())
        for client, attributes in clients:
            snapshot = client.metrics()
            if isinstance(snapshot, of):
                found += instrument.observed(snapshot, attributes)
        return found


def _same(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _seconds(value: object) -> float | None:
    return value / _S if isinstance(value, int | float) else None


def _count(timing: object) -> float | None:
    return timing.count if isinstance(timing, Timing) else None


def _time(timing: object) -> float | None:
    return timing.total_ms / _S if isinstance(timing, Timing) else None


def _longest(timing: object) -> float | None:
    return timing.max_ms / _S if isinstance(timing, Timing) else None


def _timed(name: str, unit: str, field: str, counted: str, time: str) -> tuple[Instrument, ...]:
    return (
        Instrument(f"{name}.count", Kind.COUNTER, unit, counted, field, _count),
        Instrument(f"{name}.time", Kind.COUNTER, "s", f"{time}, in all", field, _time),
        Instrument(f"{name}.longest", Kind.GAUGE, "s", f"{time}, at most", field, _longest),
    )


def _counter(name: str, unit: str, about: str, field: str) -> Instrument:
    return Instrument(name, Kind.COUNTER, unit, about, field, _same)


def _now(name: str, unit: str, about: str, field: str) -> Instrument:
    return Instrument(name, Kind.UP_DOWN_COUNTER, unit, about, field, _same)


_C: Final = "penstock.consumer"
_P: Final = "penstock.producer"

INSTRUMENTS: Final[Mapping[type[Snapshot], tuple[Instrument, ...]]] = {
    ConsumerMetrics: (
        _counter(f"{_C}.records", "{record}", "records that polls returned", "records_total"),
        _counter(
            f"{_C}.records.bad",
            "{record}",
            "records that could not be decoded, skipped or passed on raw",
            "bad_records_total",
        ),
        _counter(f"{_C}.fetched", "By", "what fetches brought, compressed or not", "fetched_bytes_total"),
        *_timed(f"{_C}.fetch", "{fetch}", "fetch", "fetches that were answered", "how long answers took"),
        _counter(f"{_C}.fetch.failed", "{fetch}", "fetches that failed", "fetch_failed_total"),
        *_timed(f"{_C}.poll", "{poll}", "poll", "polls", "time in polls"),
        *_timed(f"{_C}.between_polls", "{pause}", "between_polls", "pauses between polls", "time between polls"),
        Instrument(
            f"{_C}.last_poll", Kind.GAUGE, "s", "how long ago the last poll ended", "last_poll_ms_ago", _seconds
        ),
        *_timed(f"{_C}.commit", "{commit}", "commit", "commits", "how long commits took"),
        *_timed(f"{_C}.rebalance", "{rebalance}", "rebalance", "rebalances", "from a join to the assignment"),
        _counter(f"{_C}.rebalance.failed", "{rebalance}", "rebalances that failed", "rebalance_failed_total"),
        *_timed(
            f"{_C}.heartbeat", "{heartbeat}", "heartbeat", "heartbeats that were answered", "how long answers took"
        ),
        Instrument(
            f"{_C}.last_heartbeat",
            Kind.GAUGE,
            "s",
            "how long ago the last heartbeat was answered",
            "last_heartbeat_ms_ago",
            _seconds,
        ),
        _now(f"{_C}.partitions", "{partition}", "assigned partitions", "assigned_partitions"),
        _now(f"{_C}.buffered", "By", "what has arrived and was not polled yet", "buffered_bytes"),
        _now(f"{_C}.lag", "{record}", "from the next record polled to the log's end, by partition", "lag"),
        Instrument(f"{_C}.uptime", Kind.GAUGE, "s", "how long the consumer has been there", "seconds", _same),
    ),
    ProducerMetrics: (
        _counter(f"{_P}.records.stored", "{record}", "stored records", "record_send_total"),
        _counter(f"{_P}.records.retried", "{record}", "records sent once more, each time", "record_retry_total"),
        _counter(f"{_P}.records.failed", "{record}", "records that failed for good", "record_error_total"),
        _counter(f"{_P}.batches", "{batch}", "stored batches", "batches_total"),
        _counter(f"{_P}.sent", "By", "their size, compressed if they were", "batch_bytes_total"),
        *_timed(f"{_P}.request", "{request}", "request", "requests that were answered", "how long answers took"),
        _now(f"{_P}.requests_in_flight", "{request}", "requests on their way", "requests_in_flight"),
        _now(f"{_P}.buffered", "By", "what was put in and is not acknowledged yet", "buffer_bytes"),
        Instrument(f"{_P}.uptime", Kind.GAUGE, "s", "how long the producer has been there", "seconds", _same),
    ),
}
"""All instruments, by the kind of snapshot that they show."""
