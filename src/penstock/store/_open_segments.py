"""Which segments have their files open: descriptors are few, and logs may be thousands.

What must not live here: what is in the files.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.store._segment import Segment

__all__ = ["OpenSegments"]


class OpenSegments:
    """At most ``limit`` open segments; the least recently used one is closed first."""

    __slots__ = ("_limit", "_order", "last")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._order: OrderedDict[Segment, None] = OrderedDict()
        self.last: Segment | None = None
        """The most recently used one, unless it has been closed."""

    def __len__(self) -> int:
        return len(self._order)

    def touch(self, segment: Segment) -> None:
        """Mark ``segment`` as the most recently used."""
        self.last = segment
        if segment in self._order:
            self._order.move_to_end(segment)
            return
        self._order[segment] = None
        while len(self._order) > self._limit:
            next(iter(self._order)).close()

    def shed(self) -> bool:
        """Close half of them, because the process is out of file descriptors; False if none was open."""
        count = (len(self._order) + 1) // 2
        for segment in list(self._order)[:count]:
            segment.close()
        return count > 0

    def forget(self, segment: Segment) -> None:
        """Drop ``segment``, which has been closed."""
        self._order.pop(segment, None)
        if self.last is segment:
            self.last = None
