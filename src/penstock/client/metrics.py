"""Metrics of a consumer and of a producer: snapshots, as public data.

Names have the meaning of those in Kafka's Java clients ("Monitoring", Apache Kafka 4.x), with the unit in the name.
Counters count since the client started; ``since`` subtracts an earlier snapshot. The counting itself is in
`penstock.client.meters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final, TypeVar

from msgspec import field
from msgspec.structs import replace

from penstock.model import Partition, Value

__all__ = ["ConsumerMetrics", "ProducerMetrics", "Timing"]


class Timing(Value, frozen=True):
    """How often something happened, its total duration, and the longest single one since the client started."""

    count: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0

    @property
    def avg_ms(self) -> float:
        """The average duration; 0 if it never happened."""
        return self.total_ms / self.count if self.count else 0.0

    def since(self, earlier: Timing) -> Timing:
        """The events after ``earlier``; the maximum stays that of the whole time."""
        return replace(self, count=self.count - earlier.count, total_ms=self.total_ms - earlier.total_ms)


_NEVER: Final = Timing()

M = TypeVar("M", "ConsumerMetrics", "ProducerMetrics")


def _since(later: M, earlier: M) -> M:
    changed: dict[str, object] = {"seconds": later.seconds - earlier.seconds}
    for each in fields(later):
        now, before = getattr(later, each.name), getattr(earlier, each.name)
        if isinstance(now, Timing):
            changed[each.name] = now.since(before)
        elif each.name.endswith("_total"):
            changed[each.name] = now - before
    return replace(later, **changed)


class ConsumerMetrics(Value, frozen=True):
    """A snapshot of a consumer.

    Java's names: ``fetch`` is fetch-latency and fetch-total; ``fetched_bytes_total`` bytes-consumed-total;
    ``records_total`` records-consumed-total; ``commit`` and ``rebalance`` are commit-latency and rebalance-latency with
    their totals (``rebalance``: from the join to the assignment); ``rebalance_failed_total`` failed-rebalance-total;
    ``poll`` is the time in ``poll``; ``between_polls`` time-between-poll; ``last_poll_ms_ago`` last-poll-seconds-ago,
    None before the first; ``heartbeat`` heartbeat-response-time and heartbeat-total (answered ones);
    ``last_heartbeat_ms_ago`` last-heartbeat-seconds-ago, None before the first; ``lag`` records-lag, for partitions
    whose position and end are known.
    """

    seconds: float = 0.0
    """The age of the consumer, or the time between two snapshots."""
    fetch: Timing = _NEVER
    fetch_failed_total: int = 0
    fetched_bytes_total: int = 0
    records_total: int = 0
    bad_records_total: int = 0
    """Records that could not be decoded or deserialized, and were skipped or passed on raw (``on_bad_record``)."""
    poll: Timing = _NEVER
    between_polls: Timing = _NEVER
    last_poll_ms_ago: float | None = None
    commit: Timing = _NEVER
    rebalance: Timing = _NEVER
    rebalance_failed_total: int = 0
    heartbeat: Timing = _NEVER
    last_heartbeat_ms_ago: float | None = None
    assigned_partitions: int = 0
    buffered_bytes: int = 0
    """Received and not polled yet."""
    lag: Mapping[Partition, int] = field(default_factory=dict)

    def since(self, earlier: ConsumerMetrics) -> ConsumerMetrics:
        """The counters between two snapshots; lag and other present values are those of the later one."""
        return _since(self, earlier)

    @property
    def records_lag_max(self) -> int | None:
        """The largest lag; None where no lag is known."""
        return max(self.lag.values(), default=None)

    @property
    def fetch_rate(self) -> float:
        """Fetches per second."""
        return self.fetch.count / self.seconds if self.seconds > 0 else 0.0

    @property
    def fetch_size_avg_bytes(self) -> float:
        """Bytes per fetch."""
        return self.fetched_bytes_total / self.fetch.count if self.fetch.count else 0.0

    @property
    def records_consumed_rate(self) -> float:
        """Records per second."""
        return self.records_total / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_consumed_rate(self) -> float:
        """Bytes per second as they were sent, compressed or not."""
        return self.fetched_bytes_total / self.seconds if self.seconds > 0 else 0.0

    @property
    def poll_idle_ratio(self) -> float:
        """The share of time spent in ``poll``: near 1 where the code that handles batches has time to spare."""
        all_ms = self.poll.total_ms + self.between_polls.total_ms
        return self.poll.total_ms / all_ms if all_ms else 0.0


class ProducerMetrics(Value, frozen=True):
    """A snapshot of a producer.

    Java's names: ``request`` is request-latency and request-total; ``batches_total`` and ``batch_bytes_total`` make
    batch-size-avg; ``record_send_total`` (stored), ``record_retry_total`` (each retry) and ``record_error_total``
    (finally failed) are Java's; ``buffer_bytes`` is buffer-total-bytes less buffer-available-bytes.
    """

    seconds: float = 0.0
    """The age of the producer, or the time between two snapshots."""
    request: Timing = _NEVER
    batches_total: int = 0
    batch_bytes_total: int = 0
    record_send_total: int = 0
    record_retry_total: int = 0
    record_error_total: int = 0
    buffer_bytes: int = 0
    """Sent to the producer and not acknowledged yet."""
    requests_in_flight: int = 0

    def since(self, earlier: ProducerMetrics) -> ProducerMetrics:
        """The counters between two snapshots; the buffer and other present values are those of the later one."""
        return _since(self, earlier)

    @property
    def batch_size_avg_bytes(self) -> float:
        """Bytes per batch, after compression."""
        return self.batch_bytes_total / self.batches_total if self.batches_total else 0.0

    @property
    def records_per_request_avg(self) -> float:
        """Stored records per request."""
        return self.record_send_total / self.request.count if self.request.count else 0.0

    @property
    def record_send_rate(self) -> float:
        """Stored records per second."""
        return self.record_send_total / self.seconds if self.seconds > 0 else 0.0

    @property
    def request_rate(self) -> float:
        """Requests per second."""
        return self.request.count / self.seconds if self.seconds > 0 else 0.0
