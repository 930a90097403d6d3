"""How far a stream is behind, for Spark's progress: ``sources[].latestOffset`` with ``behind`` beside the offsets.

    {"v": 1, "from": …, "to": …, "behind": {"seconds": {topic: {partition: 12.5}}, "bytes": 10240, "batchBytes": 5, …}}

``from`` is where the batch ends, ``to`` where the log ends. ``seconds`` is the age of the oldest record after the
batch, 0 if there is none, absent if unknown. ``bytes`` (left to read) and ``batchBytes`` (in the batch) are estimates
from samples of the partitions, absent before the first sample. What must not live here: what is read next
(``_follow``).
"""

from __future__ import annotations

import heapq

from penstock.model import Partition
from penstock.spark._follow import Follower, LogView
from penstock.spark._offsets import Json, partition_key

__all__ = ["Behind"]

_MOST_SAMPLES = 16
"""Partitions per lookup of the oldest unread record; those with most to read come first."""

_EVERY_MS = 1_000
"""Time between lookups, so that they do not slow a stream of small batches."""


class Behind:
    """Remembers what it saw of the log, so that reports cost at most a few small reads per second."""

    def __init__(self, follower: Follower, log: LogView) -> None:
        self._follower = follower
        self._log = log
        self._written_ms: dict[Partition, int] = {}
        self._looked_ms: float | None = None
        self._begun_ms = log.monotonic_ms()

    def report(self) -> dict[str, Json] | None:
        """Where the stream stands after the last ``next_batch``; None before the first."""
        backlog = self._follower.backlog
        if backlog is None:
            return None
        lag = {partition: end - backlog.start[partition] for partition, end in backlog.end.items()}
        self._look({p: (backlog.start[p], backlog.end[p]) for p, offsets in lag.items() if offsets}, lag)
        batch = self._follower.last_batch
        now_ms = self._log.now_ms()
        seconds: dict[str, Json] = {}
        for partition, offsets in sorted(lag.items()):
            written_ms = self._written_ms.get(partition)
            if offsets and written_ms is None:
                continue
            of_topic = seconds.setdefault(partition.topic, {})
            assert isinstance(of_topic, dict)
            age_ms = now_ms - written_ms if offsets and written_ms is not None else 0
            of_topic[partition_key(partition)] = round(max(0, age_ms) / 1_000, 3)
        weights = self._follower.weights
        behind: dict[str, Json] = {
            "seconds": seconds,
            "lostOffsets": self._follower.losses.offsets,
            "failedCommits": self._follower.failed_commits,
        }
        if weights.known:
            behind["bytes"] = round(weights.size_bytes(lag))
            behind["batchBytes"] = 0 if batch is None else round(weights.size_bytes(batch.sizes()))
        return {**backlog.to_json(), "behind": behind}

    def _look(self, unread: dict[Partition, tuple[int, int]], lag: dict[Partition, int]) -> None:
        self._written_ms = {partition: at for partition, at in self._written_ms.items() if partition in unread}
        now_ms = self._log.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < _EVERY_MS:
            return
        most = heapq.nlargest(_MOST_SAMPLES, unread, key=lambda each: lag[each])
        wanted = {partition: unread[partition] for partition in most}
        if wanted or now_ms - self._begun_ms >= _EVERY_MS:  # not in the first batch, which would wait for the lookups
            wanted = {**self._begins_of_unknown(), **wanted}
        if not wanted:
            return
        self._looked_ms = now_ms
        for partition, seen in self._follower.sample(wanted).items():
            if seen.timestamp_ms is not None and partition in unread:
                self._written_ms[partition] = seen.timestamp_ms

    def _begins_of_unknown(self) -> dict[Partition, tuple[int, int]]:
        """The last batch's ranges in partitions that were never sampled."""
        batch = self._follower.last_batch
        if batch is None:
            return {}
        unknown = self._follower.weights.to_sample(batch.sizes(), unknown_only=True)
        return {partition: (batch.start[partition], batch.end[partition]) for partition in unknown}
