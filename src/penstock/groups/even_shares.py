"""Shares of members that all want the same topics: as even as can be, and whoever had a partition keeps it.

Everybody gets the average, rounded down; as many as do not come out even get one more, first those who had so many
before. Nothing moves between two members that stay unless one of them had more than that.
What must not live here: whom to believe about what it had (`claims`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from penstock.groups.claims import Claims
from penstock.model import Partition

__all__ = ["even_shares"]


def even_shares(
    members: Sequence[str], partitions: Sequence[Partition], claims: Claims
) -> Mapping[str, list[Partition]]:
    """Every partition's owner; ``members`` are sorted.

    >>> zero, one, two = (Partition("t", number) for number in range(3))
    >>> even_shares(["a", "b"], [zero, one, two], Claims({zero: "b", one: "b", two: "b"}))["a"]
    [Partition(topic='t', id=2, node='')]
    """
    least, extras = divmod(len(partitions), len(members))
    shares = _kept(members, claims, least, extras)
    kept = {each for share in shares.values() for each in share}
    extras -= sum(len(share) > least for share in shares.values())
    short = deque(who for who in members if len(shares[who]) < least)
    even = deque(who for who in members if len(shares[who]) == least)
    for partition in partitions:
        if partition in kept:
            continue
        if short:
            who = short.popleft()
            shares[who].append(partition)
            (even if len(shares[who]) == least else short).append(who)
        else:
            shares[even.popleft()].append(partition)
    return shares


def _kept(members: Sequence[str], claims: Claims, least: int, extras: int) -> dict[str, list[Partition]]:
    """What everybody keeps of what it had."""
    had: dict[str, list[Partition]] = {who: [] for who in members}
    for partition, who in claims.owners.items():
        had[who].append(partition)
    for who in members:
        had[who].sort(key=lambda each: (each.id, each.topic))
        more = len(had[who]) > least and extras > 0
        extras -= more
        del had[who][least + more :]
    return had
