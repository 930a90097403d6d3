"""Deadlines by key, the earliest first, with the clock passed in.

A heartbeat moves its member's deadline further away thousands of times before it is ever due, so moving one later only
notes the new time; the heap learns of it when the old entry comes up. What must not live here: what a deadline means.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """At most one deadline a key. Times are seconds of a monotonic clock.

    >>> deadlines = Deadlines[str]()
    >>> deadlines.set("a", 5.0)
    >>> deadlines.set("b", 3.0)
    >>> list(deadlines.due(4.0)), deadlines.next()
    (['b'], 5.0)
    """

    def __init__(self) -> None:
        self._times: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._scheduled: dict[K, float] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: K) -> bool:
        return key in self._times

    def set(self, key: K, when: float) -> None:
        """Give ``key`` a deadline, instead of the one it may have."""
        self._times[key] = when
        scheduled = self._scheduled.get(key)
        if scheduled is None or when < scheduled:
            self._push(key, when)

    def cancel(self, key: K) -> None:
        """Take the deadline of ``key`` away; nothing happens if it has none."""
        self._times.pop(key, None)

    def due(self, now: float) -> Iterator[K]:
        """Take out, one by one, the keys whose deadline is not after ``now``; the earliest first.

        What the caller sets or cancels between two of them counts.
        """
        while (when := self.next()) is not None and when <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._scheduled[key]
            del self._times[key]
            yield key

    def next(self) -> float | None:
        """The earliest deadline, None if there is none."""
        while self._heap:
            when, _, key = self._heap[0]
            wanted = self._times.get(key)
            if self._scheduled.get(key) != when:
                heapq.heappop(self._heap)  # an entry that an earlier one replaced
            elif wanted is None:
                heapq.heappop(self._heap)
                del self._scheduled[key]
            elif wanted > when:
                heapq.heappop(self._heap)
                self._push(key, wanted)
            else:
                return when
        return None

    def not_before(self) -> float | None:
        """Nothing is due before that; None if nothing ever is. Costs nothing, and may be earlier than `next`."""
        return self._heap[0][0] if self._heap else None

    def _push(self, key: K, when: float) -> None:
        self._scheduled[key] = when
        heapq.heappush(self._heap, (when, next(self._order), key))
        if len(self._heap) > 2 * len(self._times) + 64:
            self._rebuild()

    def _rebuild(self) -> None:
        self._scheduled = dict(self._times)
        self._heap = [(when, next(self._order), key) for key, when in self._times.items()]
        heapq.heapify(self._heap)
