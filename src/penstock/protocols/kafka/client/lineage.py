"""Lineage: which leader wrote what was seen of a partition's log, so that it is noticed when the log has another past.

A leader writes in an epoch of its own, and epochs only grow along a log. A replica without all records that is made
leader cuts the log off and goes on in a higher epoch (an unclean election): the offsets behind the cut then mean other
records. Whoever knows in which epoch the record before an offset was written can ask whether the log still has it
(KIP-320). What must not live here: asking (``truncation``, ``reading``).
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

__all__ = ["UNKNOWN", "Lineage", "Stretch"]

UNKNOWN = -1


class Stretch(NamedTuple):
    """All that was seen of one epoch: ``[start, end)``. A single point where only a position in the log is known."""

    epoch: int
    start: int
    end: int


class Lineage:
    """One partition's stretches, one an epoch, in the order of offsets, which is that of epochs."""

    __slots__ = ("_stretches", "validated")

    def __init__(self) -> None:
        self._stretches: list[Stretch] = []
        self.validated = UNKNOWN
        """The epoch of the leader that was last asked whether it has the same past."""

    def epoch_before(self, offset: int) -> int:
        """In which epoch the record before ``offset`` was written, as far as that is known; else UNKNOWN."""
        for epoch, start, end in self._stretches:
            if start < offset <= end or start == offset == end:
                return epoch
        return UNKNOWN

    def saw(self, seen: Stretch) -> None:
        """Records of the log: whatever contradicts them was another log's."""
        if len(self._stretches) == 1:
            epoch, start, end = self._stretches[0]
            if epoch == seen.epoch:
                if end == seen.start and start <= end:  # as where one record comes after the other
                    self._stretches[0] = Stretch(epoch, start, seen.end)
                else:
                    self._stretches[0] = Stretch(epoch, min(start, seen.start), max(end, seen.end))
                return
        kept = [_clear_of(each, seen) for each in self._stretches if each.epoch != seen.epoch]
        same = [each for each in self._stretches if each.epoch == seen.epoch]
        start, end = min(each.start for each in [seen, *same]), max(each.end for each in [seen, *same])
        self._stretches = [each for each in kept if each is not None]
        insort(self._stretches, Stretch(seen.epoch, start, end))

    def heard(self, epoch: int, offset: int) -> None:
        """Somebody says that the log reached up to ``offset`` in ``epoch``. Left aside where more is known already."""
        for each in self._stretches:
            if (each.epoch < epoch and each.end > offset) or (each.epoch > epoch and each.start < offset):
                return
        self.saw(Stretch(epoch, offset, offset))

    def parted_at(self, epoch: int, end: int) -> int:
        """Where another log leaves this one, whose last epoch that may be in both, ``epoch``, ends at ``end`` there."""
        return min([end, *(each.start for each in self._stretches if each.epoch > epoch)])

    def forget_after(self, epoch: int) -> None:
        """No epoch above is known any more."""
        self._stretches = [each for each in self._stretches if each.epoch <= epoch]


def _clear_of(old: Stretch, seen: Stretch) -> Stretch | None:
    """What is left of ``old`` beside ``seen``, which is of another epoch; None if that is nothing."""
    if old.epoch < seen.epoch:
        start, end = old.start, min(old.end, seen.start)
    else:
        start, end = max(old.start, seen.end), old.end
    gone = end < start or (end == start and old.start != old.end)
    return None if gone else Stretch(old.epoch, start, end)
