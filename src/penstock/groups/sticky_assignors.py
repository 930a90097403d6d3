"""The sticky assignors: even shares, of which as much as possible stays where it was (KIP-54, KIP-341, KIP-429).

What members had before is what they say (`Subscriber.owned` and ``generation``). Where members and nodes tell their
racks, partitions go to members that have a copy in theirs, never at the cost of even shares (KIP-881).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.groups.assignors import Assignor, Nearness, Racks, Subscriber
from penstock.model import Partition

__all__ = [
    "Claims",
    "CooperativeStickyAssignor",
    "StickyAssignor",
    "bring_nearer",
    "even_shares",
    "uneven_shares",
    "withhold",
]


# Claims: what members say they had before, and whom to believe where several name one partition.
#
# The claim of the latest generation counts. If several members claim a partition in that same generation, nobody's
# does: one of them cannot have noticed yet that it lost it.
@dataclass(frozen=True, slots=True)
class Claims:
    """``owners`` has the one that is believed; ``outdated`` the best of those whose claim is older."""

    owners: Mapping[Partition, str] = field(default_factory=dict)
    outdated: Mapping[Partition, str] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]]) -> Claims:
        """Claims to partitions that are there, of topics that the member still wants."""
        there = {each for of_topic in partitions.values() for each in of_topic}
        claims: dict[Partition, list[tuple[int, str]]] = {}
        for member in members:
            for partition in member.owned & there:
                if partition.topic in member.topics:
                    claims.setdefault(partition, []).append((member.generation, member.member_id))
        owners: dict[Partition, str] = {}
        outdated: dict[Partition, str] = {}
        for partition, made in claims.items():
            latest = max(generation for generation, _ in made)
            first, *others = (who for generation, who in made if generation == latest)
            if not others:
                owners[partition] = first
            if older := [claim for claim in made if claim[0] < latest]:
                outdated[partition] = max(older)[1]
        return cls(owners, outdated)


def withhold(shares: Mapping[str, Sequence[Partition]], members: Sequence[Subscriber]) -> dict[str, list[Partition]]:
    """The same without partitions that another member still holds: nobody gets those until it has given them up.

    A member's own claim outweighs older ones only; one that claims nothing outweighs none.
    """
    claims: dict[Partition, dict[str, int]] = {}
    for member in members:
        for partition in member.owned:
            claims.setdefault(partition, {})[member.member_id] = member.generation

    def is_free(partition: Partition, new_owner: str) -> bool:
        made = claims.get(partition, {})
        own = made.get(new_owner)
        return all(who == new_owner or (own is not None and since < own) for who, since in made.items())

    return {who: [each for each in share if is_free(each, who)] for who, share in shares.items()}


# Shares of members that all want the same topics: as even as can be, and whoever had a partition keeps it.
#
# Everybody gets the average, rounded down; as many as do not come out even get one more, first those who had so many
# before. Nothing moves between two members that stay unless one of them had more than that; or, where racks matter,
# unless its new owner is in one of its racks and the former is not.
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


# Shares of members that want different topics, brought into their racks: partitions that no copy near their owner has
# move to somebody near them, against another one or without, for as long as that leaves the shares as even as they are.
#
# Each step puts more partitions near their owners than before, so there is an end to it; and what has come to it stays.
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


# Shares of members that want different topics: whoever had a partition keeps it, unless that is unfair.
#
# Unfair is a partition whose owner has at least two more than somebody else who wants its topic. Such partitions move,
# one at a time, from who has most to who has least; each move makes the shares more even, so there is an end to it.
# Those that nobody had before move first, and what goes to a member is, if it can be, what that one had before. Where
# racks matter, partitions then go where a copy is near as far as it stays as fair (`nearer_shares`).
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


class StickyAssignor(Assignor):
    """`Assignor` for members that have given up everything before they join."""

    name = "sticky"

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Owners by member id; see `Assignor.assign`.

        >>> parts = {"t": [Partition("t", n) for n in range(2)]}
        >>> had_both = Subscriber("b", frozenset({"t"}), owned=frozenset(parts["t"]), generation=1)
        >>> shares = StickyAssignor().assign([Subscriber("a", frozenset({"t"})), had_both], parts, {})
        >>> [partition.id for partition in shares["b"]]
        [0]
        """
        wanting: dict[str, list[str]] = {}
        for member in sorted(members, key=lambda each: each.member_id):
            for topic in member.topics & partitions.keys():
                wanting.setdefault(topic, []).append(member.member_id)
        names = sorted(member.member_id for member in members)
        claims, near = Claims.of(members, partitions), Nearness.of(members, partitions, racks)
        if all(len(who) == len(names) for who in wanting.values()):
            everything = [each for topic in sorted(wanting) for each in partitions[topic]]
            return {who: sorted(share) for who, share in even_shares(names, everything, claims, near).items()}
        return {who: sorted(share) for who, share in uneven_shares(names, partitions, wanting, claims, near).items()}


class CooperativeStickyAssignor(StickyAssignor):
    """`StickyAssignor` for members that keep what they own while others join."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Owners by member id, without what another member has to give up first."""
        return withhold(super().assign(members, partitions, racks), members)
