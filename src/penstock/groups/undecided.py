"""Offsets that open transactions want to commit: what becomes of them is said by the transaction's marker.

A transaction's offsets of one group lie in one partition of the log, its place, and each place gets a marker of its
own. What must not live here: who may commit, and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.model import Committed, Partition

__all__ = ["Undecided", "Wanted"]


class Wanted(NamedTuple):
    """One offset, and where in the place's log it was written."""

    group: str
    partition: Partition
    committed: Committed
    position: int


class Undecided:
    """By place (the number of a partition of the log) and producer id.

    >>> undecided = Undecided()
    >>> undecided.add(0, 7, Wanted("g", Partition("t", 0), Committed(5), 1))
    >>> undecided.of("g"), undecided.end(0, 7), undecided.of("g")
    ({Partition(topic='t', id=0, node='')}, [Wanted(group='g', partition=Partition(topic='t', id=0, node=''), \
committed=Committed(offset=5, metadata='', leader_epoch=-1, timestamp_ms=-1), position=1)], set())
    """

    def __init__(self) -> None:
        self._places: dict[int, dict[int, dict[tuple[str, Partition], Wanted]]] = {}

    def add(self, place: int, producer_id: int, wanted: Wanted) -> None:
        """A producer's open transaction wants this. Hearing of it twice is hearing of it once.

        Of one offset only the last counts: a producer that repeats itself takes no more room.
        """
        mine = self._places.setdefault(place, {}).setdefault(producer_id, {})
        key = wanted.group, wanted.partition
        before = mine.get(key)
        if before is None or before.position < wanted.position:
            mine[key] = wanted

    def end(self, place: int, producer_id: int) -> list[Wanted]:
        """The producer's transaction is over there; returns what it wanted, in the order of the log."""
        producers = self._places.get(place, {})
        wanted = producers.pop(producer_id, {})
        if not producers:
            self._places.pop(place, None)
        return sorted(wanted.values(), key=lambda each: each.position)

    def forget(self, place: int, group: str, partition: Partition, position: int) -> None:
        """The group's offset was taken away at ``position``: also what stands before that and is not decided."""
        for all_of_one in self._places.get(place, {}).values():
            wanted = all_of_one.get((group, partition))
            if wanted is not None and wanted.position < position:
                del all_of_one[group, partition]

    def of(self, group: str) -> Mapping[Partition, Committed]:
        """What somebody wants to commit for the group."""
        return {
            wanted.partition: wanted.committed
            for producers in self._places.values()
            for all_of_one in producers.values()
            for wanted in all_of_one.values()
            if wanted.group == group
        }
