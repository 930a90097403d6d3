"""Racks: which members are near which partitions (KIP-881). What must not live here: who gets what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from penstock.groups.assignor import Racks, Subscriber
from penstock.model import Partition

__all__ = ["Nearness", "matters"]


def matters(members: Iterable[Subscriber], copies: Collection[frozenset[str]]) -> bool:
    """Whether it makes a difference who is in which rack: somebody is in one that has copies, and not all have all."""
    everywhere = frozenset[str]().union(*copies)
    theirs = {member.rack for member in members if member.rack}
    return not theirs.isdisjoint(everywhere) and any(each != everywhere for each in copies)


class Nearness:
    """Which of some members has a copy of which partition in its rack."""

    def __init__(self, members: Iterable[Subscriber], racks: Racks) -> None:
        self._rack_of = {member.member_id: member.rack for member in members if member.rack}
        self._copies = racks

    @classmethod
    def of(
        cls, members: Collection[Subscriber], partitions: Mapping[str, Collection[Partition]], racks: Racks
    ) -> Nearness | None:
        """Of the topics that somebody wants; None where it makes no difference."""
        wanted = frozenset[str]().union(*(member.topics for member in members))
        copies = [
            racks.get(each, frozenset[str]()) for topic in wanted & partitions.keys() for each in partitions[topic]
        ]
        return cls(members, racks) if matters(members, copies) else None

    def __call__(self, who: str, partition: Partition) -> bool:
        """Who tells no rack is near everything."""
        rack = self._rack_of.get(who)
        return rack is None or rack in self.copies(partition)

    def copies(self, partition: Partition) -> frozenset[str]:
        """The racks that have one."""
        return self._copies.get(partition, frozenset())

    @cached_property
    def members(self) -> Mapping[str, list[str]]:
        """Ids by rack, sorted."""
        found: dict[str, list[str]] = {}
        for who, rack in sorted(self._rack_of.items()):
            found.setdefault(rack, []).append(who)
        return found

    def neighbours(self, partition: Partition) -> int:
        """How many members are in one of its racks."""
        return sum(len(self.members[rack]) for rack in self.copies(partition) & self.members.keys())
