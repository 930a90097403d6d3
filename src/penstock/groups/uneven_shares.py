"""Shares of members that want different topics: whoever had a partition keeps it, unless that is unfair.

Unfair is a partition whose owner has at least two more than somebody else who wants its topic. Such partitions move,
one at a time, from who has most to who has least; each move makes the shares more even, so there is an end to it. Those
that nobody had before move first, and what goes to a member is, if it can be, what that one had before.
Where racks matter, partitions then go where a copy is near as far as it stays as fair (`nearer_shares`).
What must not live here: whom to believe about what it had (`claims`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from penstock.groups.claims import Claims
from penstock.groups.nearer_shares import bring_nearer
from penstock.groups.racks import Nearness
from penstock.model import Partition

__all__ = ["uneven_shares"]

Wanting = Mapping[str, Sequence[str]]
"""Members that want a topic, sorted; by topic."""


def uneven_shares(
    members: Iterable[str],
    partitions: Mapping[str, Sequence[Partition]],
    wanting: Wanting,
    claims: Claims,
    near: Nearness | None = None,
) -> Mapping[str, set[Partition]]:
    """The owner of every partition whose topic somebody wants."""
    shares: dict[str, set[Partition]] = {who: set() for who in members}
    for partition, who in claims.owners.items():
        shares[who].add(partition)
    _deal(shares, partitions, wanting, claims)
    _Balance(shares, wanting, claims).restore()
    if near is not None:
        bring_nearer(shares, wanting, claims, near)
    return shares


def _deal(
    shares: Mapping[str, set[Partition]],
    partitions: Mapping[str, Sequence[Partition]],
    wanting: Wanting,
    claims: Claims,
) -> None:
    """What nobody has goes to whoever has least, topics that few want first."""
    lines: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for topic in sorted(wanting.keys() & partitions.keys(), key=lambda each: (len(wanting[each]), each)):
        who_wants = tuple(wanting[topic])
        line = lines.setdefault(who_wants, [(0, who) for who in who_wants])
        for partition in partitions[topic]:
            if partition in claims.owners:
                continue
            while line[0][0] != len(shares[line[0][1]]):  # it got something since it was put there
                heapq.heapreplace(line, (len(shares[line[0][1]]), line[0][1]))
            owner = line[0][1]
            shares[owner].add(partition)
            heapq.heapreplace(line, (len(shares[owner]), owner))


class _Balance:
    """Moves partitions until nothing is unfair."""

    def __init__(self, shares: Mapping[str, set[Partition]], wanting: Wanting, claims: Claims) -> None:
        self._shares = shares
        self._wanting = wanting
        self._claims = claims

    def restore(self) -> None:
        """One partition at a time of whoever has most then: what others have might be fair afterwards."""
        while any(map(self._relieve, sorted(self._shares, key=lambda each: (-len(self._shares[each]), each)))):
            pass
        self._swap_back()

    def _relieve(self, who: str) -> bool:
        """Move one partition away from this member, if that is only fair."""
        share = self._shares[who]
        if len(share) < 2 + min(map(len, self._shares.values())):
            return False
        takers = {topic: self._taker(topic) for topic in {each.topic for each in share}}
        fair = [each for each in share if len(self._shares[takers[each.topic]]) < len(share) - 1]
        if not fair:
            return False
        moving = min(fair, key=lambda each: self._reluctance(each, who, takers[each.topic]))
        share.remove(moving)
        self._shares[takers[moving.topic]].add(moving)
        return True

    def _swap_back(self) -> None:
        """Who lost something gets it again for something else, if that does not make anybody's share larger."""
        for who, share in self._shares.items():
            for partition in sorted(share):
                before = self._claims.owners.get(partition)
                if before is None or before == who:
                    continue
                instead = [each for each in self._shares[before] if self._may_go(each, before, who)]
                if instead:
                    swapped = min(instead, key=lambda each: (self._claims.owners.get(each) != who, each))
                    self._shares[before].remove(swapped)
                    self._shares[before].add(partition)
                    share.remove(partition)
                    share.add(swapped)

    def _may_go(self, partition: Partition, owner: str, taker: str) -> bool:
        return self._claims.owners.get(partition) != owner and taker in self._wanting[partition.topic]

    def _taker(self, topic: str) -> str:
        return min(self._wanting[topic], key=lambda each: (len(self._shares[each]), each))

    def _reluctance(self, partition: Partition, owner: str, taker: str) -> tuple[bool, bool, int, Partition]:
        """What comes home first, then what the owner had not before, then to whom it helps most."""
        had = self._claims.owners.get(partition, self._claims.outdated.get(partition))
        return had != taker, had == owner, len(self._shares[taker]), partition
