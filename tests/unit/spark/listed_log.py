"""A log as a list of bounds: everything a Follower sees of a log, without the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.client.ranges.range_reader import Peek
from penstock.errors import LogTruncated, ServerError
from penstock.model import LogRange, Partition
from penstock.spark._offsets import BatchOffset, Positions


class ListedLog:
    """``bounds`` holds (earliest, latest) of each partition and may be changed between calls.

    Record n of every partition was written at n seconds and takes ``weight`` bytes. The clock moves when told to.
    """

    def __init__(self, bounds: Mapping[Partition, tuple[int, int]], *, weight: int = 100) -> None:
        self.bounds = dict(bounds)
        self.weight = weight
        self.clock_ms = 0
        self.committed_by: dict[str, dict[Partition, int]] = {}
        self.committed_calls: list[tuple[str, dict[Partition, int]]] = []
        self.pauses: list[float] = []
        self.peeks: list[dict[Partition, int]] = []
        self.hidden: list[Mapping[Partition, tuple[int, int]]] = []
        """What the next looks see instead of ``bounds``."""
        self.topic_ids: dict[str, str] = {}
        self.leader_epochs: dict[Partition, int] = {}
        self.cut_at: dict[Partition, int] = {}
        """Where the log of the leader of today leaves the one that earlier leaders had."""
        self.asked_for_truncation: list[dict[Partition, tuple[int, int]]] = []
        self.coordinator_is_away = False
        self.closed = False
        self._seen = self.bounds

    def leaders(self) -> dict[Partition, str]:
        self._seen = dict(self.hidden.pop(0)) if self.hidden else self.bounds
        return dict.fromkeys(self._seen, "1")

    def ids(self) -> dict[str, str]:
        return dict(self.topic_ids)

    def earliest(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {partition: self._seen[partition][0] for partition in partitions}

    def latest(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {partition: self._seen[partition][1] for partition in partitions}

    def epochs(self) -> dict[Partition, int]:
        return dict(self.leader_epochs)

    def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> dict[Partition, LogTruncated]:
        self.asked_for_truncation.append(dict(positions))
        return {
            partition: LogTruncated(f"the log was cut off at {self.cut_at[partition]}", parted_at=at, code=1, name="x")
            for partition, (offset, _) in positions.items()
            if (at := self.cut_at.get(partition, offset)) < offset
        }

    def at_times(self, times_ms: Mapping[Partition, int]) -> dict[Partition, int | None]:
        return {partition: self._at(partition, -(-at_ms // 1_000)) for partition, at_ms in times_ms.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> Positions:
        known = self.committed_by.get(group, {})
        return {partition: known[partition] for partition in partitions if partition in known}

    def peek(self, wanted: Collection[LogRange]) -> dict[Partition, Peek]:
        self.peeks.append({Partition(each.topic, each.partition): each.start for each in wanted})
        return {p: Peek(10 * self.weight, 10, offset * 1_000) for p, offset in self.peeks[-1].items()}

    def commit(self, group: str, done: BatchOffset) -> None:
        if self.coordinator_is_away:
            raise ServerError("not now", code=15, name="COORDINATOR_NOT_AVAILABLE", retriable=True)
        self.committed_calls.append((group, dict(done.end)))

    def now_ms(self) -> int:
        return self.clock_ms

    def monotonic_ms(self) -> float:
        return self.clock_ms

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def close(self) -> None:
        self.closed = True

    def _at(self, partition: Partition, offset: int) -> int | None:
        first, last = self.bounds[partition]
        return max(first, offset) if offset < last else None
