"""Assignors: pure functions from members and partitions to owners. Kafka's ``range`` and ``roundrobin``, and racks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from penstock.model import Partition, Value

__all__ = [
    "NO_GENERATION",
    "Assignor",
    "Nearness",
    "Racks",
    "RangeAssignor",
    "RoundRobinAssignor",
    "Shares",
    "Subscriber",
    "in_order",
    "matters",
    "subscribers_by_topic",
]

NO_GENERATION = -1

Racks: TypeAlias = Mapping[Partition, frozenset[str]]
"""The racks that hold copies of each partition; a partition is absent if they are unknown."""

Shares: TypeAlias = Mapping[str, Sequence[Partition]]
"""Owned partitions by member id."""


class Subscriber(Value, frozen=True):
    """One member as an assignor sees it.

    ``owned`` and ``generation`` are what the member says it had before (empty and -1 if its protocol does not report
    it). ``user_data`` are bytes that the member's own assignor added (`Assignor.user_data`), or None.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: frozenset[Partition] = frozenset()
    generation: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes | None = None


class Assignor(ABC):
    """Assigns partitions to a group's members.

    For your own assignor, derive a class and pass it to the consumer (``assignors=[Mine]``), which creates one
    instance. Every member of the group has to know the assignor.

    >>> class Everything(Assignor):
    ...     name = "everything-to-one"
    ...     def assign(self, members, partitions, racks):
    ...         first = min(member.member_id for member in members)
    ...         return {first: [each for of_topic in partitions.values() for each in of_topic]}
    """

    name: str
    """The name in the group protocol, by which members agree on an assignor."""

    cooperative: bool = False
    """True if members may keep what they own during a rebalance.

    Then ``assign`` must never give a partition to a member while another one says that it owns it. It leaves the
    partition out; the owner gives it up and joins again; then the partition can be assigned.
    """

    @abstractmethod
    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> Shares:
        """Return owners by member id. A member that is absent gets nothing; no partition has two owners.

        Called in the member that leads the group. ``partitions`` has each known topic's partitions in order; a
        subscribed topic that is missing does not exist (yet). ``racks`` is empty if nodes do not report theirs.
        The result should not depend on the order of ``members``.
        """

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return bytes to add to this member's subscription for the leader's ``assign``; called before each join."""
        del topics
        return None

    def assigned(self, partitions: frozenset[Partition], generation: int) -> None:
        """This member got these partitions. Called after each rebalance in which this assignor was used."""
        del partitions, generation


def in_order(members: Iterable[Subscriber]) -> list[Subscriber]:
    """Sort members: by instance id first, then those without one by member id (KIP-345: places outlive restarts)."""
    return sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id, one.member_id))


def subscribers_by_topic(members: Iterable[Subscriber]) -> dict[str, list[Subscriber]]:
    """Each topic's subscribers in order; topics by name."""
    found: dict[str, list[Subscriber]] = {}
    for member in in_order(members):
        for topic in member.topics:
            found.setdefault(topic, []).append(member)
    return dict(sorted(found.items()))


# Racks: which members are near which partitions (KIP-881).
def matters(members: Iterable[Subscriber], copies: Collection[frozenset[str]]) -> bool:
    """Whether racks make a difference: a member is in a rack with copies, and some partition lacks a copy somewhere."""
    everywhere = frozenset[str]().union(*copies)
    theirs = {member.rack for member in members if member.rack}
    return not theirs.isdisjoint(everywhere) and any(each != everywhere for each in copies)


class Nearness:
    """Which members have a copy of which partition in their rack."""

    def __init__(self, members: Iterable[Subscriber], racks: Racks) -> None:
        self._rack_of = {member.member_id: member.rack for member in members if member.rack}
        self._copies = racks

    @classmethod
    def of(
        cls, members: Collection[Subscriber], partitions: Mapping[str, Collection[Partition]], racks: Racks
    ) -> Nearness | None:
        """For topics with subscribers; None if racks make no difference."""
        wanted = frozenset[str]().union(*(member.topics for member in members))
        copies = [
            racks.get(each, frozenset[str]()) for topic in wanted & partitions.keys() for each in partitions[topic]
        ]
        return cls(members, racks) if matters(members, copies) else None

    def __call__(self, who: str, partition: Partition) -> bool:
        """Whether the member has a copy in its rack. A member without a rack is near everything."""
        rack = self._rack_of.get(who)
        return rack is None or rack in self.copies(partition)

    def copies(self, partition: Partition) -> frozenset[str]:
        """The racks that have a copy."""
        return self._copies.get(partition, frozenset())

    @cached_property
    def members(self) -> Mapping[str, list[str]]:
        """Ids by rack, sorted."""
        found: dict[str, list[str]] = {}
        for who, rack in sorted(self._rack_of.items()):
            found.setdefault(rack, []).append(who)
        return found

    def neighbours(self, partition: Partition) -> int:
        """How many members are in a rack with a copy."""
        return sum(len(self.members[rack]) for rack in self.copies(partition) & self.members.keys())


# The range assignor: each topic's partitions in consecutive runs, one run per member (Kafka's ``range``).
#
# Members in order get the runs in order, and the first ones get one more if the division leaves a remainder. So topics
# with equal partition counts are assigned alike, which joins of such topics rely on.
#
# If members and nodes report their racks, members first get partitions with a copy in their rack, never more than an
# even share, and the runs are made of the rest (KIP-881). Topics with the same members and the same number of
# partitions are matched together, so that they are still assigned alike. Racks are ignored where they change nothing:
# no member is in a rack with copies, or every partition has a copy in every rack.
class RangeAssignor(Assignor):
    """`Assignor` by ranges; the same results as Kafka's Java client."""

    name = "range"

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Owners by member id; see `Assignor.assign`.

        >>> parts = {"t": [Partition("t", n) for n in range(5)]}
        >>> two = [Subscriber("a", frozenset({"t"})), Subscriber("b", frozenset({"t"}))]
        >>> [partition.id for partition in RangeAssignor().assign(two, parts, {})["a"]]
        [0, 1, 2]
        """
        owned: dict[str, list[Partition]] = {member.member_id: [] for member in members}
        topics = [
            _Topic(partitions[topic], subscribers, owned)
            for topic, subscribers in subscribers_by_topic(members).items()
            if partitions.get(topic)
        ]
        by_rack = any(topic.gains_by(racks) for topic in topics)
        if by_rack:
            _match(topics, racks)
        for topic in topics:
            topic.share_runs()
        if by_rack:
            for run in owned.values():
                run.sort()
        return owned


class _Topic:
    """One topic while it is assigned: the partitions left, and how many each subscriber has."""

    def __init__(
        self, partitions: Sequence[Partition], subscribers: Sequence[Subscriber], owned: Mapping[str, list[Partition]]
    ) -> None:
        self.partitions = partitions
        self.subscribers = subscribers
        self._owned = owned
        self._left = dict.fromkeys(partitions)
        self._each, self._extras = divmod(len(partitions), len(subscribers))
        self._has = {member.member_id: 0 for member in subscribers}

    def gains_by(self, racks: Racks) -> bool:
        """Whether racks make a difference for this topic."""
        return matters(self.subscribers, [racks.get(partition, frozenset[str]()) for partition in self.partitions])

    def room(self, member: Subscriber) -> int:
        """How many more partitions the member may have."""
        return max(0, self._each + (self._extras > 0) - self._has[member.member_id])

    def give(self, member: Subscriber, partitions: Iterable[Partition]) -> None:
        """Assign ``partitions`` to the member."""
        for partition in partitions:
            del self._left[partition]
            self._owned[member.member_id].append(partition)
            self._has[member.member_id] += 1
        if self._has[member.member_id] > self._each:
            self._extras -= 1

    def share_runs(self, racks: Racks | None = None) -> None:
        """Give each subscriber in order the first partitions left; with ``racks``, only those near it."""
        for member in self.subscribers:
            wanted = (each for each in self._left if racks is None or _near(member, each, racks))
            if run := list(islice(wanted, self.room(member))):
                self.give(member, run)


def _near(member: Subscriber, partition: Partition, racks: Racks) -> bool:
    return not member.rack or member.rack in racks.get(partition, ())


def _match(topics: Sequence[_Topic], racks: Racks) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        if any(member.rack for member in topic.subscribers):
            who = tuple(member.member_id for member in topic.subscribers)
            alike.setdefault((who, len(topic.partitions)), []).append(topic)
    for same in alike.values():
        if len(same) > 1:
            _match_together(same, racks)
        elif same[0].gains_by(racks):
            same[0].share_runs(racks)


def _match_together(topics: Sequence[_Topic], racks: Racks) -> None:
    """Give partitions of equal number to the first member that is near all of them and has room for them."""
    for same_number in zip(*(topic.partitions for topic in topics), strict=True):
        each = list(zip(topics, same_number, strict=True))
        for member in topics[0].subscribers:
            if all(topic.room(member) and _near(member, partition, racks) for topic, partition in each):
                for topic, partition in each:
                    topic.give(member, [partition])
                break


# The round-robin assignor: partitions of all topics are dealt out in turn (Kafka's ``roundrobin``).
#
# Partitions go by topic name and number. Members take turns in order; one that has not subscribed to the current topic
# is skipped. Earlier owners are not considered.
class RoundRobinAssignor(Assignor):
    """`Assignor` by turns; the same results as Kafka's Java client."""

    name = "roundrobin"

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Owners by member id; racks do not matter.

        >>> parts = {"t": [Partition("t", n) for n in range(3)]}
        >>> two = [Subscriber("a", frozenset({"t"})), Subscriber("b", frozenset({"t"}))]
        >>> [partition.id for partition in RoundRobinAssignor().assign(two, parts, {})["a"]]
        [0, 2]
        """
        del racks
        order = in_order(members)
        owned: dict[str, list[Partition]] = {member.member_id: [] for member in order}
        wanted = frozenset[str]().union(*(member.topics for member in order))
        turn = 0
        for topic in sorted(wanted & partitions.keys()):
            for partition in partitions[topic]:
                while topic not in order[turn % len(order)].topics:
                    turn += 1
                owned[order[turn % len(order)].member_id].append(partition)
                turn += 1
        return owned
