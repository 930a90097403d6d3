"""A partition's log as one object that recovery makes and the log uses, and what is told about it.

What must not live here: I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.store._segment import Segment
from penstock.store.aborted import AbortedIndex
from penstock.store.epochs import EpochHistory
from penstock.store.producers import ProducerTable

__all__ = ["CleanLog", "LogState", "Recovery"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a log lost at open: ``cut_bytes`` of ``file`` from ``position`` and ``at_offset`` on, and why.

    ``next_offset`` is where the log goes on behind the gap, None at its end; ``aside`` is the file that keeps what was
    cut, None if there was nothing to keep. Its text is the sentence for operators.
    """

    topic: str
    partition: int
    cut_bytes: int
    at_offset: int
    reason: str
    file: str = ""
    position: int = 0
    next_offset: int | None = None
    aside: str | None = None

    def __str__(self) -> str:
        cut = f"cut at byte {self.position}, {self.cut_bytes} bytes, " if self.cut_bytes else ""
        kept = f", kept in {self.aside}" if self.aside else ""
        if self.next_offset is None:
            offsets = f"the log goes on with offset {self.at_offset}"
        else:
            offsets = f"offsets {self.at_offset} to {self.next_offset - 1} are missing, what follows is there"
        return f"topic {self.topic}, partition {self.partition}: {self.file}: {cut}{self.reason}{kept}; {offsets}"


@dataclass(slots=True)
class LogState:
    """A log's segments (the last one is written to), and what is known of its offsets and writers.

    Below ``recovery_point`` everything was on the disk when the store opened. Below ``cleaned`` the log has been
    compacted since then; it is not tried before ``compact_after_ms``. ``retired`` logs have no files any more.
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

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.start_offset

    def settled_segments(self) -> Sequence[Segment]:
        """The segments, but none behind the first that holds records of an open transaction."""
        first = self.producers.first_open
        if first is None:
            return self.segments
        return self.segments[: sum(segment.next_offset <= first for segment in self.segments) + 1]

    @property
    def stable_offset(self) -> int:
        """Below it every transaction is over: readers of committed records end there."""
        first = self.producers.first_open
        return self.end_offset if first is None else max(first, self.start_offset)

    def misses_synced(self, end: int) -> bool:
        """Whether a log that ends at ``end`` misses records that were on the disk and that nobody deleted."""
        return end < self.recovery_point and self.start_offset < self.recovery_point


@dataclass(frozen=True, slots=True)
class CleanLog:
    """A log as it was closed. ``segments``: base, size, next offset, newest timestamp, its offset, created (ms)."""

    start_offset: int
    segments: Sequence[Sequence[int]]
    epochs: Sequence[Sequence[int]]
    producers: Sequence[Sequence[int]]

    @classmethod
    def of(cls, state: LogState) -> CleanLog:
        rows = [
            [one.base, one.size, one.next_offset, one.newest.timestamp_ms, one.newest.offset, one.created_ms]
            for one in state.segments
        ]
        return cls(state.start_offset, rows, state.epochs.entries(), state.producers.snapshot())
