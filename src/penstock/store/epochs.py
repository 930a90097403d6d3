"""Leader epochs of one partition: which epoch wrote from which offset on. Pure, no I/O.

The store's epoch grows by one each time it is opened; a log notes the offset at which it first wrote in an epoch.
A consumer that was cut off asks "where did epoch N end?" (OffsetForLeaderEpoch, KIP-101, KIP-320) and learns whether
what it read is still there. The text form is Kafka's ``leader-epoch-checkpoint`` file: a version line, a count, then
``epoch start-offset`` a line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

__all__ = ["UNKNOWN", "EpochHistory"]

UNKNOWN = -1


class EpochHistory:
    """(epoch, start offset) pairs, both strictly increasing."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNKNOWN

    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset) pairs, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """``epoch`` writes from ``start`` on; False if it is already the newest. Raises ValueError if either decreases.

        If the previous epoch starts at the same offset it wrote nothing, so its entry is replaced.
        """
        if epoch == self.latest:
            return False
        if epoch < self.latest or (self._starts and start < self._starts[-1]):
            raise ValueError(f"epoch {epoch} at {start} after epoch {self.latest} at {self._starts[-1]}")
        if self._starts and self._starts[-1] == start:
            self._epochs[-1] = epoch
        else:
            self._epochs.append(epoch)
            self._starts.append(start)
        return True

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch not above ``epoch``; (-1, -1) for an epoch of the future.

        For an epoch older than all known ones: that epoch, and where the oldest known one starts.
        """
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN, UNKNOWN
        if epoch == self.latest:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        found = self._epochs[above - 1] if above else epoch
        return found, self._starts[above]

    def at(self, offset: int) -> int:
        """The epoch that wrote ``offset``; -1 if the offset is older than all known epochs."""
        above = bisect_right(self._starts, offset)
        return self._epochs[above - 1] if above else UNKNOWN

    def cut_end(self, end: int) -> None:
        """The log now ends at ``end``: drop epochs that began at or after it."""
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()

    def cut_start(self, start: int) -> None:
        """The log now starts at ``start``: of the epochs before it keep only the last, moved to ``start``."""
        covered = bisect_right(self._starts, start) - 1
        if covered >= 0:
            del self._epochs[:covered], self._starts[:covered]
            self._starts[0] = start

    def to_text(self) -> str:
        """The checkpoint file's text."""
        lines = [f"{epoch} {start}" for epoch, start in self.entries()]
        return "\n".join(["0", str(len(lines)), *lines, ""])

    @classmethod
    def from_text(cls, text: str) -> EpochHistory:
        """Read a checkpoint file. Raises ValueError."""
        version, count, *lines = text.split("\n")
        pairs = [tuple(map(int, line.split())) for line in lines if line]
        whole = text.endswith("\n")  # or the last number may have lost digits: the file has no checksum
        if version != "0" or len(pairs) != int(count) or any(len(pair) != 2 for pair in pairs) or not whole:
            raise ValueError("not a leader epoch checkpoint of version 0")
        return cls((pair[0], pair[1]) for pair in pairs)
