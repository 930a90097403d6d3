"""The pace of a stream: how many offsets a micro-batch may have so that it takes about as long as the user wants.

What can be seen of a batch is when its tasks are handed out and when Spark asks for the next one. Usually that is its
duration; but with a trigger interval Spark may have waited in between, and much of a small batch is the same whatever
its size. So a batch that was too long makes the next one smaller only as long as smaller ones were indeed shorter.
What must not live here: clocks (times come in as arguments), and the other limits of a batch (``_admission``).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FIRST", "Pace"]

FIRST = 100_000
"""Offsets of the first batch: a fraction of a second for most jobs, so that a target of seconds is not overshot."""

_MOST_GROWTH = 4.0
_MOST_SHRINKING = 0.25
_CLEARLY = 0.8


@dataclass(slots=True)
class Pace:
    """``limit`` offsets are allowed for the next batch."""

    target_ms: int
    limit: int = FIRST
    _begun_ms: float | None = None
    _offsets: int = 0
    _before: tuple[int, float] | None = None
    """Offsets and duration of the batch before, if it was too long."""

    def begin(self, offsets: int, now_ms: float) -> None:
        """A batch of so many offsets goes to the tasks now. Told again for a batch that is run again."""
        self._offsets, self._begun_ms = offsets, now_ms

    def end(self, now_ms: float) -> None:
        """The batch that began last is done; nothing happens if there is none."""
        if self._begun_ms is None or not self._offsets:
            return
        took_ms, self._begun_ms = max(now_ms - self._begun_ms, 1.0), None
        wanted = self.target_ms / took_ms
        if wanted >= 1.0:
            self._before = None
            # A batch smaller than allowed says nothing about one of full size, except that there may be more.
            if self._offsets * 2 >= self.limit:
                self.limit = int(self.limit * min(wanted, _MOST_GROWTH))
            return
        before, self._before = self._before, (self._offsets, took_ms)
        if before is not None and self._offsets < before[0] * _CLEARLY and took_ms > before[1] * _CLEARLY:
            self.limit = before[0]  # it was smaller and not shorter: size is not what it waits for
            self._before = None
            return
        self.limit = max(1, int(self._offsets * max(wanted, _MOST_SHRINKING)))
