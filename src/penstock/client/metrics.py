"""Metrics of a consumer and of a producer: snapshots as public data, and the meters that count.

Names have the meaning of those in Kafka's Java clients ("Monitoring", Apache Kafka 4.x), with the unit in the name.
Counters count since the client started; ``since`` subtracts an earlier snapshot. Each counter is written by one thread
at a time. A reader in another thread may see numbers that are one event apart. `Measuring` passes snapshots to the
application's ``on_metrics`` function at intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Final, Generic, TypeAlias, TypeVar, cast

from msgspec import field
from msgspec.structs import replace

from penstock.client.runtime.callbacks import CallbackErrorReporter, Callbacks, LoopCallbacks
from penstock.errors import ConfigError
from penstock.interfaces import Fetched
from penstock.model import Partition, Value

__all__ = [
    "ConsumerMeter",
    "ConsumerMetrics",
    "Measuring",
    "MetricsHook",
    "ProducerMeter",
    "ProducerMetrics",
    "Stopwatch",
    "Timing",
]


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


# Meters: a client's counters, cheap enough for every fetch, request and poll; ``metrics()`` reads them.
#
# Each counter is written by one thread at a time. A reader in another thread may see numbers that are one event apart.
# `Measuring` passes snapshots to the application's ``on_metrics`` function at intervals.
class Stopwatch:
    """Counts events and their durations in seconds."""

    __slots__ = ("count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = self.longest_s = 0.0

    def add(self, seconds: float) -> None:
        """Record one event."""
        self.count += 1
        self.total_s += seconds
        if seconds > self.longest_s:  # noqa: PLR1730 -- a call of max costs as much as this whole method
            self.longest_s = seconds

    @property
    def timing(self) -> Timing:
        """The same as public data, in milliseconds."""
        return Timing(self.count, self.total_s * 1_000, self.longest_s * 1_000)


class ConsumerMeter:
    """The counters of one consumer. Times are the loop's."""

    __slots__ = (
        "begun", "between_polls", "commit", "fetch", "fetch_failed", "fetched_bytes", "heartbeat", "last_heartbeat",
        "last_poll", "poll", "rebalance", "rebalance_failed", "records",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.begun = now
        self.fetch, self.commit, self.rebalance = Stopwatch(), Stopwatch(), Stopwatch()
        self.poll, self.between_polls, self.heartbeat = Stopwatch(), Stopwatch(), Stopwatch()
        self.fetch_failed = self.fetched_bytes = self.records = self.rebalance_failed = 0
        self.last_poll: float | None = None
        self.last_heartbeat: float | None = None

    def fetched(self, seconds: float, answers: Sequence[Fetched] | Exception) -> None:
        """A fetch was answered or failed."""
        if isinstance(answers, Exception):
            self.fetch_failed += 1
            return
        self.fetch.add(seconds)
        for answer in answers:
            self.fetched_bytes += answer.size

    def heartbeat_done(self, begun: float, ended: float) -> None:
        """A heartbeat was answered, with or without an error."""
        self.heartbeat.add(ended - begun)
        self.last_heartbeat = ended

    def polled(self, begun: float, ended: float, records: int) -> None:
        """A poll ended."""
        if self.last_poll is not None:
            self.between_polls.add(begun - self.last_poll if begun > self.last_poll else 0.0)
        self.poll.add(ended - begun)
        self.last_poll = ended
        self.records += records


class ProducerMeter:
    """The counters of one producer. Times are the loop's."""

    __slots__ = ("batch_bytes", "batches", "begun", "errors", "request", "retries", "sent")

    def __init__(self, now: float) -> None:
        self.begun = now
        self.request = Stopwatch()
        self.batches = self.batch_bytes = self.sent = self.retries = self.errors = 0

    def stored(self, records: int, size: int) -> None:
        """A batch has been stored."""
        self.batches += 1
        self.batch_bytes += size
        self.sent += records

    def metrics(self, now: float, buffer_bytes: int, requests_in_flight: int) -> ProducerMetrics:
        """A snapshot as public data."""
        return ProducerMetrics(
            seconds=now - self.begun,
            request=self.request.timing,
            batches_total=self.batches,
            batch_bytes_total=self.batch_bytes,
            record_send_total=self.sent,
            record_retry_total=self.retries,
            record_error_total=self.errors,
            buffer_bytes=buffer_bytes,
            requests_in_flight=requests_in_flight,
        )


# Periodic snapshots for a function of the application. A synchronous client calls it in a thread of its own, so that
# it also runs while no thread polls or sends; an asynchronous client calls it on the user's loop.

MetricsHook: TypeAlias = Callable[[M], object]
"""The type of ``on_metrics``."""


class Measuring(Generic[M]):
    """Calls ``on_metrics`` of one client, from its first use to its close; ``callbacks`` decides where it runs.

    Exceptions are reported as those of any callback. While a call is running, further snapshots are dropped, not
    queued. Raises ConfigError for a hook that is not callable.
    """

    def __init__(self, hook: object, interval_ms: int, report: CallbackErrorReporter) -> None:
        if hook is not None and not callable(hook):
            raise ConfigError(f"on_metrics must be a function of one snapshot, as metrics() makes it, got {hook!r:.60}")
        self.callbacks: Callbacks = LoopCallbacks(report)
        self._hook: MetricsHook[M] | None = cast("MetricsHook[M] | None", hook if interval_ms else None)
        self._interval_s = interval_ms / 1_000
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, snapshot: Callable[[], M]) -> None:
        """Call the hook in one interval from now, and so on. Call this on the client's loop."""
        if self._hook is not None:
            self._arm(asyncio.get_running_loop(), self._hook, snapshot)

    def end(self) -> None:
        """Stop calling the hook; a call that is running in a thread is not interrupted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.callbacks.close()

    def _arm(self, loop: asyncio.AbstractEventLoop, hook: MetricsHook[M], snapshot: Callable[[], M]) -> None:
        self._timer = loop.call_later(self._interval_s, self._tell, loop, hook, snapshot)

    def _tell(self, loop: asyncio.AbstractEventLoop, hook: MetricsHook[M], snapshot: Callable[[], M]) -> None:
        self._arm(loop, hook, snapshot)
        if self.callbacks.idle:
            self.callbacks.put(loop, hook, snapshot())
