"""Which member of a group gets which partitions: the master's arithmetic, without clock, events or wire.

One run takes what each member says it holds and gives back what each shall hold. Rules:

1. Nobody holds anything (a group's first run): per topic, members in order of their ids get contiguous slices of the
   partitions in order, sizes differing by one at most; who has least so far gets the longer slices.
2. Otherwise members keep what they hold. Partitions that nobody keeps are dealt, each to the member with the least
   (dice decide among equals), and the run ends there.
3. Nothing was free: who has more than its share gives up the surplus, which goes to those who have less. Shares differ
   by one at most, so no partition moves that need not.

Source: TubeMQ master, server-side balance. The real one deals free partitions at random and evens out a round later;
dealing them to who has least saves that second move.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["Claim", "Dice", "Shares", "share_out"]

Dice: TypeAlias = Callable[[int], int]
"""``dice(n)``: a number from 0 to n - 1."""

Shares: TypeAlias = dict[str, list[Partition]]
"""What each member shall hold; every member is in it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member holds before the run. ``stripped``: an operator wants it to lose everything this once.

    ``barred``: it gets nothing new in this run either.
    """

    member: str
    holds: frozenset[Partition]
    stripped: bool = False
    barred: bool = False


def share_out(claims: Sequence[Claim], candidates: Collection[Partition], dice: Dice) -> Shares:
    """One run. Where two members claim the same partition, the first of ``claims`` keeps it."""
    wanted = sorted(candidates)
    if not any(claim.holds or claim.stripped or claim.barred for claim in claims):
        return _slices([claim.member for claim in claims], wanted)
    shares = _kept(claims, frozenset(wanted))
    taken = {partition for share in shares.values() for partition in share}
    free = [partition for partition in wanted if partition not in taken]
    if free:
        _deal(shares, claims, free, dice)
    elif not any(claim.stripped or claim.barred for claim in claims):
        _even_out(shares)
    return shares


def _slices(members: Sequence[str], candidates: Sequence[Partition]) -> Shares:
    shares: Shares = {member: [] for member in members}
    if not members:
        return shares
    for topic in sorted({partition.topic for partition in candidates}):
        mine = [partition for partition in candidates if partition.topic == topic]
        least, longer = divmod(len(mine), len(members))
        favoured = set(sorted(members, key=lambda member: (len(shares[member]), member))[:longer])
        at = 0
        for member in sorted(members):
            size = least + (member in favoured)
            shares[member] += mine[at : at + size]
            at += size
    return shares


def _kept(claims: Sequence[Claim], candidates: frozenset[Partition]) -> Shares:
    shares: Shares = {}
    taken: set[Partition] = set()
    for claim in claims:
        kept = set() if claim.stripped else (claim.holds & candidates) - taken
        taken |= kept
        shares[claim.member] = sorted(kept)
    return shares


def _deal(shares: Shares, claims: Sequence[Claim], free: Sequence[Partition], dice: Dice) -> None:
    """A partition that no member may have now stays free until the next run."""
    takers = [claim for claim in claims if not claim.barred]
    for partition in free:
        able = [claim.member for claim in takers if not (claim.stripped and partition in claim.holds)]
        if not able:
            continue
        least = min(len(shares[member]) for member in able)
        equals = [member for member in able if len(shares[member]) == least]
        shares[equals[dice(len(equals))]].append(partition)


def _even_out(shares: Shares) -> None:
    total, members = sum(map(len, shares.values())), len(shares)
    if not members:
        return
    least, longer = divmod(total, members)
    # Who has most keeps the longer shares: they give up least that way.
    by_load = sorted(shares, key=lambda member: (-len(shares[member]), member))
    size = {member: least + (rank < longer) for rank, member in enumerate(by_load)}
    pool: list[Partition] = []
    for member in by_load:
        share = shares[member]
        surplus = max(0, len(share) - size[member])
        pool += share[:surplus]
        del share[:surplus]
    for member in by_load:
        missing = size[member] - len(shares[member])
        shares[member] += pool[:missing]
        del pool[:missing]
