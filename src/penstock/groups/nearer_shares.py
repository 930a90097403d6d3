"""Shares of members that want different topics, brought into their racks: partitions that no copy near their owner has
move to somebody near them, against another one or without, for as long as that leaves the shares as even as they are.

Each step puts more partitions near their owners than before, so there is an end to it; and what has come to it stays.
What must not live here: evenness and what stays where it was (`uneven_shares`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.groups.claims import Claims
from penstock.groups.racks import Nearness
from penstock.model import Partition

__all__ = ["bring_nearer"]

_Stuck = set[tuple[str, str, frozenset[str]]]
"""Owner, topic and racks of partitions that nobody can take: others like them need not be tried."""


def bring_nearer(
    shares: Mapping[str, set[Partition]], wanting: Mapping[str, Sequence[str]], claims: Claims, near: Nearness
) -> None:
    """Change shares of which none is unfair; none is afterwards. ``wanting`` has the members that want a topic."""
    _Exchange(shares, wanting, claims, near).settle()


class _Exchange:
    def __init__(
        self, shares: Mapping[str, set[Partition]], wanting: Mapping[str, Sequence[str]], claims: Claims, near: Nearness
    ) -> None:
        self._shares = shares
        self._wanting = wanting
        self._wants = {topic: frozenset(members) for topic, members in wanting.items()}
        self._claims = claims
        self._near = near
        self._fewest: dict[str, int] = {}

    def settle(self) -> None:
        """Until no step is left."""
        while sum(self._better(who) for who in sorted(self._shares)):
            pass

    def _better(self, who: str) -> bool:
        """Bring what this member has far away to others; whether any of it went."""
        stuck: _Stuck = set()
        went = False
        for partition in sorted(each for each in self._shares[who] if not self._near(who, each)):
            kind = who, partition.topic, self._near.copies(partition)
            if kind not in stuck:
                gone = self._give(partition, who)
                went |= gone
                if not gone:
                    stuck.add(kind)
        return went

    def _give(self, partition: Partition, who: str) -> bool:
        for taker in self._takers(partition):
            if self._may_move(partition, who, taker):
                self._move(partition, who, taker)
                self._fewest.clear()
                return True
            if (back := self._in_return(partition, who, taker)) is not None:
                self._move(partition, who, taker)
                self._move(back, taker, who)
                return True
        return False

    def _takers(self, partition: Partition) -> Iterator[str]:
        neighbours = {who for rack in self._near.copies(partition) for who in self._near.members.get(rack, ())}
        return (who for who in self._wanting[partition.topic] if who in neighbours)

    def _may_move(self, partition: Partition, who: str, taker: str) -> bool:
        """Whether its owner has one too many, and nobody has a claim on that one before this taker."""
        has = len(self._shares[taker])
        topics = {partition.topic}.union(each.topic for each in self._shares[taker])
        return has < len(self._shares[who]) and all(has <= self._least(topic) for topic in topics)

    def _in_return(self, partition: Partition, who: str, taker: str) -> Partition | None:
        """What the owner may have for it: no worse for that one, best what was its own or is nobody's of old."""
        if self._least(partition.topic) < len(self._shares[taker]) - 1:
            return None
        fit = [each for each in self._shares[taker] if self._suits(each, who, taker)]
        return min(fit, key=lambda each: (self._reluctance(each, who, taker), each), default=None)

    def _suits(self, partition: Partition, who: str, taker: str) -> bool:
        return (
            who in self._wants[partition.topic]
            and (self._near(who, partition) or not self._near(taker, partition))
            and self._least(partition.topic) >= len(self._shares[who]) - 1
        )

    def _reluctance(self, partition: Partition, who: str, taker: str) -> tuple[bool, bool]:
        had = self._claims.owners.get(partition)
        return had != who, had == taker

    def _least(self, topic: str) -> int:
        """What who has fewest of those that want it has; an exchange changes nothing about that."""
        if (least := self._fewest.get(topic)) is None:
            least = self._fewest[topic] = min(len(self._shares[who]) for who in self._wanting[topic])
        return least

    def _move(self, partition: Partition, owner: str, taker: str) -> None:
        self._shares[owner].remove(partition)
        self._shares[taker].add(partition)
