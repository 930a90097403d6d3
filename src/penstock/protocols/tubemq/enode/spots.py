"""Offsets of a TubeMQ partition as a node counts them: one a record, ascending, the same for everybody who reads.

TubeMQ's offsets are places in the index of a *store*, 28 bytes each; here they are counted in records. All partitions
of a store share one index, and an answer does not say which places its messages have. So:

- Where a store has one partition, a record's offset is its place.
- Elsewhere the index is cut into *windows* of `WINDOW` places, and the n-th message of a partition in window k has the
  offset ``k * WINDOW + n``. That follows from what is in the log, not from how it is read, so it is the same at every
  node and after every restart. It is never above the message's own place, and where a store has one partition both
  rules say the same: a topic that grows from one to several keeps its offsets.

Retention deletes at any place. In the window in which the log begins then, counting begins with the first place that is
left, at the offset of that place: what was not read yet has offsets that are not below what they were, so a reader that
comes back misses nothing; it may see records of that one window twice.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from penstock._dataclasses import dataclass

__all__ = ["WINDOW", "Spot", "Spots", "window_of"]

WINDOW: Final = 4_096
"""Places. Never to be changed: offsets that clients keep would mean other records.

Whoever comes to an offset that nobody read before has to count from its window's start: this many messages at most.
Each window's end is looked up by one more request, so much smaller ones would cost more than reading.
"""

_MOST: Final = 256


@dataclass(frozen=True, slots=True)
class Spot:
    """Messages before place ``at`` have offsets below ``next``; the first one from there on, in its window, gets it."""

    next: int
    at: int

    @property
    def edge(self) -> int:
        """Where the window ends: the first place of the next one."""
        return window_of(self.at) + WINDOW

    def after(self, count: int, at: int) -> Spot:
        """``count`` messages further, all of this window, when everything before ``at`` was looked at."""
        if at >= self.edge:
            return Spot(window_of(at), at)
        return Spot(self.next + count, at)


def window_of(place: int) -> int:
    """The first place of its window, which is also the offset at which the window begins."""
    return place - place % WINDOW


class Spots:
    """From which place readers go on, by the offset that they ask for; the ones used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Spot] = OrderedDict()

    def at(self, offset: int) -> Spot | None:
        """Where to look for the record at ``offset`` or the first one behind it."""
        spot = self._known.get(offset)
        if spot is not None:
            self._known.move_to_end(offset)
        return spot

    def note(self, offset: int, spot: Spot) -> None:
        """Nothing is between ``offset`` and ``spot.next``."""
        for key in {offset, spot.next}:
            self._known[key] = spot
            self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)

    def nearest(self, place: int) -> Spot | None:
        """The last one known of ``place``'s window that is not behind it."""
        first = window_of(place)
        fit = [spot for spot in self._known.values() if first <= spot.at <= place]
        return max(fit, key=lambda spot: spot.at, default=None)

    def clear(self) -> None:
        self._known.clear()
