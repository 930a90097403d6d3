"""Meters: what clients count as they go, cheap enough for every fetch, request and poll, and read by ``metrics()``.

Counted where things happen, by one thread at a time each; who reads them from another thread sees numbers that may be
one event apart. What must not live here: what users read (`metrics`).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.metrics import ProducerMetrics, Timing
from penstock.seams import Fetched

__all__ = ["ConsumerMeter", "ProducerMeter", "Stopwatch"]


class Stopwatch:
    """How often something took how long, in seconds."""

    __slots__ = ("count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = self.longest_s = 0.0

    def add(self, seconds: float) -> None:
        """It happened once more."""
        self.count += 1
        self.total_s += seconds
        if seconds > self.longest_s:  # noqa: PLR1730 -- a call of max costs as much as all of this
            self.longest_s = seconds

    @property
    def timing(self) -> Timing:
        """As users read it."""
        return Timing(self.count, self.total_s * 1_000, self.longest_s * 1_000)


class ConsumerMeter:
    """Of one consumer. Times are the loop's."""

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
        """A fetch was answered, or not."""
        if isinstance(answers, Exception):
            self.fetch_failed += 1
            return
        self.fetch.add(seconds)
        for answer in answers:
            self.fetched_bytes += answer.size

    def beaten(self, begun: float, ended: float) -> None:
        """A heartbeat was answered, whatever it told."""
        self.heartbeat.add(ended - begun)
        self.last_heartbeat = ended

    def polled(self, begun: float, ended: float, records: int) -> None:
        """A poll began and ended."""
        if self.last_poll is not None:
            self.between_polls.add(begun - self.last_poll if begun > self.last_poll else 0.0)
        self.poll.add(ended - begun)
        self.last_poll = ended
        self.records += records


class ProducerMeter:
    """Of one producer. Times are the loop's."""

    __slots__ = ("batch_bytes", "batches", "begun", "errors", "request", "retries", "sent")

    def __init__(self, now: float) -> None:
        self.begun = now
        self.request = Stopwatch()
        self.batches = self.batch_bytes = self.sent = self.retries = self.errors = 0

    def stored(self, records: int, size: int) -> None:
        """A batch is stored."""
        self.batches += 1
        self.batch_bytes += size
        self.sent += records

    def metrics(self, now: float, buffer_bytes: int, requests_in_flight: int) -> ProducerMetrics:
        """As users read it."""
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
