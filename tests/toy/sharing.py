"""How partitions are shared out: every member computes the same from the same lists ("averagely"). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.model import Partition


def share_of(
    member: str, members: Mapping[str, Collection[str]], partitions: Collection[Partition]
) -> frozenset[Partition]:
    """What ``member`` reads: of each topic a run of neighbours, the first members one more where it does not come out.

    ``members`` are the topics that each wants.
    """
    mine: set[Partition] = set()
    for topic in members[member]:
        there = sorted(each for each in partitions if each.topic == topic)
        names = sorted(name for name, topics in members.items() if topic in topics)
        place, (each, over) = names.index(member), divmod(len(there), len(names))
        first = place * each + min(place, over)
        mine |= set(there[first : first + each + (place < over)])
    return frozenset(mine)
