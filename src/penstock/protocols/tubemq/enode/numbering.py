"""Which partition of the cluster has which number at this node: kept while brokers come and go. Pure.

A partition of TubeMQ is a broker and a number that is unique there; fronts count a topic's partitions from 0 without a
hole, and clients keep offsets by these numbers. So a number, once given, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.model import Partition

__all__ = ["Numbering"]


class Numbering:
    """A topic's partitions are numbered in the order in which they were heard of: by broker, then by their own number.

    Nothing is ever taken back: a broker that nobody tells of any more keeps its places.
    """

    def __init__(self) -> None:
        self._homes: dict[str, list[Partition]] = {}

    def topics(self) -> list[str]:
        """All that were heard of."""
        return sorted(self._homes)

    def homes(self, topic: str) -> Sequence[Partition]:
        """By our numbers: the partitions as the cluster calls them."""
        return self._homes.get(topic, ())

    def new(self, topic: str, found: Iterable[Partition]) -> list[Partition]:
        """Those of ``found`` that have no number yet, in the order in which they are to get one."""
        return sorted(set(found).difference(self.homes(topic)), key=lambda each: (int(each.node), each.id))

    def give(self, topic: str, number: int, home: Partition) -> None:
        """A number that was decided on; one that is given already stays what it is."""
        homes = self._homes.setdefault(topic, [])
        if number == len(homes) and home not in homes:
            homes.append(home)

    def forget(self, topic: str) -> None:
        """It was deleted."""
        self._homes.pop(topic, None)
