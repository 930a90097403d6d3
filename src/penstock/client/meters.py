"""Meters: a client's counters, cheap enough for every fetch, request and poll; ``metrics()`` reads them.

Each counter is written by one thread at a time. A reader in another thread may see numbers that are one event apart.
`Measuring` passes snapshots to the application's ``on_metrics`` function at intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar, cast

from penstock.client.metrics import ConsumerMetrics, ProducerMetrics, Timing
from penstock.client.runtime.callbacks import Callbacks, LoopCallbacks, Told
from penstock.errors import ConfigError
from penstock.interfaces import Fetched

__all__ = ["ConsumerMeter", "Measuring", "MetricsHook", "ProducerMeter", "Stopwatch"]


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

    def beaten(self, begun: float, ended: float) -> None:
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
M = TypeVar("M", ConsumerMetrics, ProducerMetrics)

MetricsHook: TypeAlias = Callable[[M], object]
"""The type of ``on_metrics``."""


class Measuring(Generic[M]):
    """Calls ``on_metrics`` of one client, from its first use to its close; ``callbacks`` decides where it runs.

    Exceptions are reported as those of any callback. While a call is running, further snapshots are dropped, not
    queued. Raises ConfigError for a hook that is not callable.
    """

    def __init__(self, hook: object, interval_ms: int, told: Told) -> None:
        if hook is not None and not callable(hook):
            raise ConfigError(
                f"on_metrics is {hook!r:.60}, wanted is a function of one snapshot, as metrics() makes it"
            )
        self.callbacks: Callbacks = LoopCallbacks(told)
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
