"""The state of a partition's log: recovery builds it, the log then works on it. What must not live here: I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.store._segment import Segment
from penstock.store.aborted import AbortedIndex
from penstock.store.epochs import EpochHistory
from penstock.store.errors import Recovery
from penstock.store.producers import ProducerTable

__all__ = ["LogState"]


@dataclass(slots=True)
class LogState:
    """A log's segments (the last one is written to), and what is known about its offsets and writers.

    Everything below ``recovery_point`` was on the disk when the store opened; everything below ``cleaned`` has been
    compacted since. The next compaction waits until ``compact_after_ms``. A ``retired`` log may not touch its files.
    The batches from the first to before the second offset of ``unchecked`` have heads that an older node believed;
    the next check of them waits until ``check_after_ms``.
    """

    start_offset: int = 0
    segments: list[Segment] = field(default_factory=list)
    epochs: EpochHistory = field(default_factory=EpochHistory)
    producers: ProducerTable = field(default_factory=ProducerTable)
    aborted: AbortedIndex = field(default_factory=AbortedIndex)
    recovery_point: int = 0
    recovered: list[Recovery] = field(default_factory=list)
    cleaned: int = 0
    compacting: bool = False
    compact_after_ms: int = 0
    retired: bool = False
    unchecked: tuple[int, int] = (0, 0)
    check_after_ms: int = 0

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.start_offset

    def heads_checked(self, segment: Segment) -> bool:
        """Whether the largest timestamps of the segment's batches are known to be those of their records."""
        return segment.next_offset <= self.unchecked[0] or segment.base >= self.unchecked[1]

    def settled_segments(self) -> Sequence[Segment]:
        """The segments up to and including the first that holds records of an open transaction."""
        first = self.producers.first_open
        if first is None:
            return self.segments
        return self.segments[: sum(segment.next_offset <= first for segment in self.segments) + 1]

    @property
    def stable_offset(self) -> int:
        """The last stable offset: every transaction below it has ended, so readers of committed records stop there."""
        first = self.producers.first_open
        return self.end_offset if first is None else max(first, self.start_offset)

    def misses_synced(self, end: int) -> bool:
        """Whether a log that ends at ``end`` lacks records that were on the disk and not deleted on request."""
        return end < self.recovery_point and self.start_offset < self.recovery_point
