"""How large a stream's micro-batch is: its share of the backlog, and the pace that a target duration sets.

A batch seems to last from when its tasks are handed out until Spark asks for the next batch. But with a trigger
interval Spark may have waited in between, and a small batch takes much of its time whatever its size. So a batch that
took too long makes the next one smaller only as long as smaller batches were in fact shorter. Pure arithmetic. What
must not live here: clocks (times come in as arguments), and Spark's read limits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["FIRST", "Pace", "Weights", "admit"]

_SAMPLED = 16
"""Partitions sampled before a batch: 64 KiB each, so that estimating its size costs little compared with reading it."""

_GUESS = 1_024.0


def admit(backlog: Mapping[Partition, int], limit: int | None) -> dict[Partition, int]:
    """Offsets to take from each partition, in proportion to its backlog; partitions without backlog are left out.

    Every partition that has a backlog gets at least one offset, so that a small one beside a huge one moves too
    (with fewer offsets allowed than partitions, the sum is therefore the number of partitions); otherwise the sum
    is exactly ``limit``. ``None`` takes everything. Ties go to the first partition, so that the answer is repeatable.
    """
    waiting = {partition: size for partition, size in sorted(backlog.items()) if size > 0}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return waiting
    spare = limit - len(waiting)
    if spare <= 0:
        return dict.fromkeys(waiting, 1)
    # Each gets one; the rest is shared by largest remainder over what is left of each backlog.
    rest = total - len(waiting)
    shares = {partition: divmod(spare * (size - 1), rest) for partition, size in waiting.items()}
    taken = {partition: 1 + whole for partition, (whole, _) in shares.items()}
    left = limit - sum(taken.values())
    for partition in sorted(shares, key=lambda each: -shares[each][1])[:left]:
        taken[partition] += 1
    return taken


class Weights:
    """Mean bytes per offset of each partition, from samples of its records."""

    def __init__(self) -> None:
        self._known: dict[Partition, float] = {}

    @property
    def known(self) -> bool:
        """Whether any partition was sampled."""
        return bool(self._known)

    def to_sample(self, backlog: Mapping[Partition, int], *, unknown_only: bool = False) -> list[Partition]:
        """The partitions to sample next: those without a sample first, then those with most to read."""
        unwanted = self._known.keys() if unknown_only else ()
        waiting = (partition for partition, size in backlog.items() if size > 0 and partition not in unwanted)
        return heapq.nsmallest(_SAMPLED, waiting, key=lambda each: (each in self._known, -backlog[each], each))

    def learn(self, partition: Partition, size_bytes: int, offsets: int) -> None:
        """A sample: ``offsets`` offsets of ``partition`` took ``size_bytes`` bytes."""
        self._known[partition] = size_bytes / offsets

    def size_bytes(self, backlog: Mapping[Partition, int]) -> float:
        """Estimated bytes of the backlog; partitions without a sample count as the mean of the others."""
        usual = self._mean(self._known.values())
        return sum(size * self._known.get(partition, usual) for partition, size in backlog.items())

    def offsets_of(self, size_bytes: int, backlog: Mapping[Partition, int]) -> int | None:
        """How many offsets of ``backlog``, taken in proportion, make up ``size_bytes``; None if all of it is less."""
        whole = self.size_bytes(backlog)
        return None if whole <= size_bytes else max(1, int(sum(backlog.values()) * size_bytes / whole))

    @staticmethod
    def _mean(known: Iterable[float]) -> float:
        values = [*known]
        return sum(values) / len(values) if values else _GUESS


# Pace.

FIRST = 100_000
"""Offsets of the first batch: a fraction of a second for most jobs, so that a target of seconds is not overshot."""

_MOST_GROWTH = 4.0
_MOST_SHRINKING = 0.25
_CLEARLY = 0.8


@dataclass(slots=True)
class Pace:
    """Adapts ``limit``, the offsets allowed for the next batch, to a target duration."""

    target_ms: int
    limit: int = FIRST
    _begun_ms: float | None = None
    _offsets: int = 0
    _before: tuple[int, float] | None = None
    """Offsets and duration (ms) of the previous batch, if it took too long."""

    def begin(self, offsets: int, now_ms: float) -> None:
        """A batch of ``offsets`` offsets goes to the tasks now; called again for a batch that is rerun."""
        self._offsets, self._begun_ms = offsets, now_ms

    def end(self, now_ms: float) -> None:
        """The batch that began last is done; does nothing if there is none."""
        if self._begun_ms is None or not self._offsets:
            return
        took_ms, self._begun_ms = max(now_ms - self._begun_ms, 1.0), None
        wanted = self.target_ms / took_ms
        if wanted >= 1.0:
            self._before = None
            # A batch much smaller than allowed says nothing about the speed of a full one.
            if self._offsets * 2 >= self.limit:
                self.limit = int(self.limit * min(wanted, _MOST_GROWTH))
            return
        before, self._before = self._before, (self._offsets, took_ms)
        if before is not None and self._offsets < before[0] * _CLEARLY and took_ms > before[1] * _CLEARLY:
            self.limit = before[0]  # smaller was not shorter: its size is not what takes the time
            self._before = None
            return
        self.limit = max(1, int(self._offsets * max(wanted, _MOST_SHRINKING)))
