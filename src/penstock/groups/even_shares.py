"""Shares of members that all want the same topics: as even as can be, and whoever had a partition keeps it.

Everybody gets the average, rounded down; as many as do not come out even get one more, first those who had so many
before. Nothing moves between two members that stay unless one of them had more than that; or, where racks matter,
unless its new owner is in one of its racks and the former is not.
What must not live here: whom to believe about what it had (`claims`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from penstock.groups.claims import Claims
from penstock.groups.racks import Nearness
from penstock.model import Partition

__all__ = ["even_shares"]


def even_shares(
    members: Sequence[str], partitions: Sequence[Partition], claims: Claims, near: Nearness | None = None
) -> Mapping[str, list[Partition]]:
    """Every partition's owner; ``members`` are sorted.

    >>> zero, one, two = (Partition("t", number) for number in range(3))
    >>> even_shares(["a", "b"], [zero, one, two], Claims({zero: "b", one: "b", two: "b"}))["a"]
    [Partition(topic='t', id=2, node='')]
    """
    hands = _Hands(members, len(partitions))
    if near is None:
        hands.keep(claims.owners)
    else:
        hands.keep({each: who for each, who in claims.owners.items() if near(who, each)})
        _deal_near(hands, hands.left(partitions), near)
        _give_back(hands, hands.left(partitions), claims.owners)
    hands.deal(hands.left(partitions))
    return hands.shares


class _Hands:
    """Everybody's share while it is dealt."""

    def __init__(self, members: Sequence[str], partitions: int) -> None:
        self.shares: dict[str, list[Partition]] = {who: [] for who in members}
        self._least, self._extras = divmod(partitions, len(members))

    def room(self, who: str) -> bool:
        """Whether it may have one more."""
        has = len(self.shares[who])
        return has < self._least or (has == self._least and self._extras > 0)

    def give(self, who: str, partition: Partition) -> None:
        """Of a member that has room for it."""
        self._extras -= len(self.shares[who]) == self._least
        self.shares[who].append(partition)

    def keep(self, owners: Mapping[Partition, str]) -> None:
        """What everybody keeps of what it had."""
        had: dict[str, list[Partition]] = {who: [] for who in self.shares}
        for partition, who in owners.items():
            had[who].append(partition)
        for who, theirs in had.items():
            for partition in sorted(theirs, key=lambda each: (each.id, each.topic)):
                if not self.room(who):
                    break
                self.give(who, partition)

    def left(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those that nobody has got."""
        given = {each for share in self.shares.values() for each in share}
        return [each for each in partitions if each not in given]

    def deal(self, partitions: Iterable[Partition]) -> None:
        """One after the other, first to those that are short."""
        short = deque(who for who, share in self.shares.items() if len(share) < self._least)
        even = deque(who for who, share in self.shares.items() if len(share) == self._least)
        for partition in partitions:
            who = short.popleft() if short else even.popleft()
            self.give(who, partition)
            if len(self.shares[who]) <= self._least:
                (even if len(self.shares[who]) == self._least else short).append(who)


def _deal_near(hands: _Hands, partitions: Sequence[Partition], near: Nearness) -> None:
    """To whoever has least of those in their racks, partitions that few are near first."""
    lines = {rack: [(len(hands.shares[who]), who) for who in members] for rack, members in near.members.items()}
    for line in lines.values():
        heapq.heapify(line)
    for partition in sorted(partitions, key=near.neighbours):
        first = [_first(lines[rack], hands) for rack in near.copies(partition) & lines.keys()]
        if first and hands.room(who := min(first)[1]):
            hands.give(who, partition)


def _first(line: list[tuple[int, str]], hands: _Hands) -> tuple[int, str]:
    while line[0][0] != len(hands.shares[line[0][1]]):  # it got something since it was put there
        heapq.heapreplace(line, (len(hands.shares[line[0][1]]), line[0][1]))
    return line[0]


def _give_back(hands: _Hands, partitions: Iterable[Partition], owners: Mapping[Partition, str]) -> None:
    """What nobody nearer has room for stays where it was."""
    for partition in partitions:
        if (who := owners.get(partition)) is not None and hands.room(who):
            hands.give(who, partition)
