"""The sticky assignors: even shares that keep as many partitions as possible in place (KIP-54, KIP-341, KIP-429).

Members report what they had before (`Subscriber.owned` and ``generation``). If members and nodes report their racks,
partitions go to members that have a copy in their rack, but never at the cost of even shares (KIP-881).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

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


# Claims: the partitions that members say they had, and which claim is believed if there are several.
#
# The claim of the latest generation counts. If several members claim a partition in that same generation, none counts,
# because one of them cannot have noticed yet that it lost the partition.
class Claims(Struct, frozen=True):
    """``owners`` has the member whose claim is believed; ``outdated`` the best of the older claims."""

    owners: Mapping[Partition, str] = field(default_factory=dict)
    outdated: Mapping[Partition, str] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]]) -> Claims:
        """Collect claims to existing partitions, of topics that the member still wants."""
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
    """Return ``shares`` without partitions that another member still holds; these are given away once it released them.

    A member's own claim outweighs only older ones; a member that claims nothing outweighs none.
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


# Members that all want the same topics: shares as even as possible, and members keep what they had.
#
# Each member gets the average, rounded down; the remainder is given out one each, first to members that had so many
# before. A partition moves between two members that stay only if one of them had more than that, or, with racks, if the
# new owner is in a rack with a copy and the old one is not.
def even_shares(
    members: Sequence[str], partitions: Sequence[Partition], claims: Claims, near: Nearness | None = None
) -> Mapping[str, list[Partition]]:
    """Return every partition's owner; ``members`` are sorted.

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
    """The members' shares while partitions are dealt out."""

    def __init__(self, members: Sequence[str], partitions: int) -> None:
        self.shares: dict[str, list[Partition]] = {who: [] for who in members}
        self._least, self._extras = divmod(partitions, len(members))

    def room(self, who: str) -> bool:
        """Whether the member may have one more."""
        has = len(self.shares[who])
        return has < self._least or (has == self._least and self._extras > 0)

    def give(self, who: str, partition: Partition) -> None:
        """Give a partition to a member that has room for it."""
        self._extras -= len(self.shares[who]) == self._least
        self.shares[who].append(partition)

    def keep(self, owners: Mapping[Partition, str]) -> None:
        """Let members keep what they had, as far as they have room."""
        had: dict[str, list[Partition]] = {who: [] for who in self.shares}
        for partition, who in owners.items():
            had[who].append(partition)
        for who, theirs in had.items():
            for partition in sorted(theirs, key=lambda each: (each.id, each.topic)):
                if not self.room(who):
                    break
                self.give(who, partition)

    def left(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions that have no owner."""
        given = {each for share in self.shares.values() for each in share}
        return [each for each in partitions if each not in given]

    def deal(self, partitions: Iterable[Partition]) -> None:
        """Give out partitions one by one, first to members below the average."""
        short = deque(who for who, share in self.shares.items() if len(share) < self._least)
        even = deque(who for who, share in self.shares.items() if len(share) == self._least)
        for partition in partitions:
            who = short.popleft() if short else even.popleft()
            self.give(who, partition)
            if len(self.shares[who]) <= self._least:
                (even if len(self.shares[who]) == self._least else short).append(who)


def _deal_near(hands: _Hands, partitions: Sequence[Partition], near: Nearness) -> None:
    """Give each partition to the member with the fewest in its racks; partitions with few members nearby go first."""
    lines = {rack: [(len(hands.shares[who]), who) for who in members] for rack, members in near.members.items()}
    for line in lines.values():
        heapq.heapify(line)
    for partition in sorted(partitions, key=near.neighbours):
        first = [_first(lines[rack], hands) for rack in near.copies(partition) & lines.keys()]
        if first and hands.room(who := min(first)[1]):
            hands.give(who, partition)


def _first(line: list[tuple[int, str]], hands: _Hands) -> tuple[int, str]:
    while line[0][0] != len(hands.shares[line[0][1]]):  # the entry is outdated: the member got one since
        heapq.heapreplace(line, (len(hands.shares[line[0][1]]), line[0][1]))
    return line[0]


def _give_back(hands: _Hands, partitions: Iterable[Partition], owners: Mapping[Partition, str]) -> None:
    """Leave partitions where they were if no nearer member has room."""
    for partition in partitions:
        if (who := owners.get(partition)) is not None and hands.room(who):
            hands.give(who, partition)


# Members that want different topics, with racks. A partition without a copy near its owner moves to a member near a
# copy, in exchange for another one or alone, as long as the shares stay as even as they are.
#
# Each step brings more partitions near their owners, so the process ends, and what it reached stays.
_Stuck = set[tuple[str, str, frozenset[str]]]
"""Owner, topic and racks of partitions that cannot move; others like them need not be tried."""


def bring_nearer(
    shares: Mapping[str, set[Partition]], wanting: Mapping[str, Sequence[str]], claims: Claims, near: Nearness
) -> None:
    """Improve fair shares in place; they stay fair. ``wanting`` has the members that want each topic."""
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
        """Repeat until no step is left."""
        while sum(self._better(who) for who in sorted(self._shares)):
            pass

    def _better(self, who: str) -> bool:
        """Give this member's distant partitions to others; return whether any moved."""
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
        """Whether the owner has one too many, and the taker is among the members that may get it first."""
        has = len(self._shares[taker])
        topics = {partition.topic}.union(each.topic for each in self._shares[taker])
        return has < len(self._shares[who]) and all(has <= self._least(topic) for topic in topics)

    def _in_return(self, partition: Partition, who: str, taker: str) -> Partition | None:
        """Return what the owner gets in exchange: not worse for it, best what it had before or what had no owner."""
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
        """The smallest share among members that want the topic; an exchange does not change it."""
        if (least := self._fewest.get(topic)) is None:
            least = self._fewest[topic] = min(len(self._shares[who]) for who in self._wanting[topic])
        return least

    def _move(self, partition: Partition, owner: str, taker: str) -> None:
        self._shares[owner].remove(partition)
        self._shares[taker].add(partition)


# Members that want different topics: members keep what they had, unless that is unfair.
#
# A partition is unfair if its owner has at least two more than another member that wants its topic. Such partitions
# move one at a time, from the largest share to the smallest. Each move makes the shares more even, so the process ends.
# Partitions without an earlier owner move first, and a member gets back what it had before, if possible. With racks,
# partitions then move near a copy as long as the shares stay as fair (`bring_nearer`).
Wanting = Mapping[str, Sequence[str]]
"""Members that want a topic, sorted; by topic."""


def uneven_shares(
    members: Iterable[str],
    partitions: Mapping[str, Sequence[Partition]],
    wanting: Wanting,
    claims: Claims,
    near: Nearness | None = None,
) -> Mapping[str, set[Partition]]:
    """Return the owner of every partition whose topic has subscribers."""
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
    """Give partitions without an owner to the smallest share; topics with few subscribers go first."""
    lines: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for topic in sorted(wanting.keys() & partitions.keys(), key=lambda each: (len(wanting[each]), each)):
        who_wants = tuple(wanting[topic])
        line = lines.setdefault(who_wants, [(0, who) for who in who_wants])
        for partition in partitions[topic]:
            if partition in claims.owners:
                continue
            while line[0][0] != len(shares[line[0][1]]):  # the entry is outdated: the member got one since
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
        """Move one partition at a time from the largest share; afterwards, the other shares may be fair."""
        while any(map(self._relieve, sorted(self._shares, key=lambda each: (-len(self._shares[each]), each)))):
            pass
        self._swap_back()

    def _relieve(self, who: str) -> bool:
        """Move one partition away from this member, if it has an unfair one."""
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
        """Give members back what they lost, in exchange for another partition, if no share grows by that."""
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
        """Prefer partitions that return home, then those new to the owner, then the taker with the smallest share."""
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
        """Owners by member id, without partitions that another member has to give up first."""
        return withhold(super().assign(members, partitions, racks), members)
