"""How far a stream is behind, as Spark's progress shows it: ``sources[].latestOffset`` with a note beside the offsets.

    {"v": 1, "from": …, "to": …, "behind": {"seconds": {topic: {partition: 12.5}}, "bytes": 10240, "batchBytes": 5, …}}

``from`` is where the batch ends, ``to`` where the log ends. ``seconds`` are the age of the oldest record that is not
in the batch, 0 where there is none; absent where it is not known. What must not live here: what is read next
(``_follow``). ``bytes`` of what is left and ``batchBytes`` of the batch are estimates from a few records of each;
absent before any was looked at.
"""

from __future__ import annotations

import heapq

from penstock.model import Partition
from penstock.spark._follow import Follower, LogView
from penstock.spark._offsets import Json, partition_key

__all__ = ["Behind"]

_LOOKED_AT = 16
"""Partitions whose oldest unread record is looked up at once, those with most to read first."""

_EVERY_MS = 1_000
"""Not more often: a stream of small batches has better things to do."""


class Behind:
    """Keeps what was seen of the log, so that a report costs few small reads a second at most."""

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
        most = heapq.nlargest(_LOOKED_AT, unread, key=lambda each: lag[each])
        wanted = {partition: unread[partition] for partition in most}
        if wanted or now_ms - self._begun_ms >= _EVERY_MS:  # not in the first batch: its looks would be waited for
            wanted = {**self._begins_of_unknown(), **wanted}
        if not wanted:
            return
        self._looked_ms = now_ms
        for partition, seen in self._follower.look_at(wanted).items():
            if seen.timestamp_ms is not None and partition in unread:
                self._written_ms[partition] = seen.timestamp_ms

    def _begins_of_unknown(self) -> dict[Partition, tuple[int, int]]:
        """The last batch in partitions of which no record was looked at."""
        batch = self._follower.last_batch
        if batch is None:
            return {}
        unknown = self._follower.weights.to_look_at(batch.sizes(), unknown_only=True)
        return {partition: (batch.start[partition], batch.end[partition]) for partition in unknown}
