"""How much of the backlog one micro-batch takes, and of which partition. Pure arithmetic.

What must not live here: Spark's read limits; the stream reader turns them into a number of records.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from penstock.model import Partition

__all__ = ["Weights", "admit"]

_SAMPLED = 16
"""Partitions that are looked at before a batch: 64 KiB each, so that knowing the size costs little beside reading."""

_GUESS = 1_024.0


def admit(backlog: Mapping[Partition, int], limit: int | None) -> dict[Partition, int]:
    """Offsets to take of each partition, in proportion to its backlog; partitions without backlog are left out.

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
    # One each is given; the rest by largest remainder over what is left of each backlog.
    rest = total - len(waiting)
    shares = {partition: divmod(spare * (size - 1), rest) for partition, size in waiting.items()}
    taken = {partition: 1 + whole for partition, (whole, _) in shares.items()}
    left = limit - sum(taken.values())
    for partition in sorted(shares, key=lambda each: -shares[each][1])[:left]:
        taken[partition] += 1
    return taken


class Weights:
    """How many bytes an offset takes in each partition, as far as some records of it were looked at."""

    def __init__(self) -> None:
        self._known: dict[Partition, float] = {}

    @property
    def known(self) -> bool:
        """Whether any records were looked at."""
        return bool(self._known)

    def to_look_at(self, backlog: Mapping[Partition, int], *, unknown_only: bool = False) -> list[Partition]:
        """The partitions whose records to look at next: unknown ones first, then those with most to read."""
        unwanted = self._known.keys() if unknown_only else ()
        waiting = (partition for partition, size in backlog.items() if size > 0 and partition not in unwanted)
        return heapq.nsmallest(_SAMPLED, waiting, key=lambda each: (each in self._known, -backlog[each], each))

    def learn(self, partition: Partition, size_bytes: int, offsets: int) -> None:
        """So many offsets of ``partition`` took so many bytes."""
        self._known[partition] = size_bytes / offsets

    def size_bytes(self, backlog: Mapping[Partition, int]) -> float:
        """What the backlog takes; unknown partitions count like the average of the known ones."""
        usual = self._mean(self._known.values())
        return sum(size * self._known.get(partition, usual) for partition, size in backlog.items())

    def offsets_of(self, size_bytes: int, backlog: Mapping[Partition, int]) -> int | None:
        """How many offsets of ``backlog``, taken in proportion, make up so many bytes; None: all of it is less."""
        whole = self.size_bytes(backlog)
        return None if whole <= size_bytes else max(1, int(sum(backlog.values()) * size_bytes / whole))

    @staticmethod
    def _mean(known: Iterable[float]) -> float:
        values = [*known]
        return sum(values) / len(values) if values else _GUESS
