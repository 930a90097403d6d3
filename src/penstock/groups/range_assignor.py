"""The range assignor: each topic's partitions in consecutive runs, one run a member (Kafka's ``range``).

Members in order get the runs in order, and the first ones get one more where it does not come out even; so topics
with equal partition counts are shared out alike, which joins of such topics rely on.

Where members and nodes tell their racks, members first get partitions that have a copy in their rack, never more than
their even share, and the runs are made of what is left (KIP-881). Topics with the same members and as many partitions
are matched together, so that they are still shared out alike. Racks are not looked at where that brings nothing: no
member is in a rack with copies, or every partition has a copy in every rack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from penstock.groups.assignor import Assignor, Racks, Subscriber, subscribers_by_topic
from penstock.groups.racks import matters
from penstock.model import Partition

__all__ = ["RangeAssignor"]


class RangeAssignor(Assignor):
    """`Assignor` by ranges; the same as Kafka's Java client."""

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
    """One topic while it is shared out: what is left, and how much each subscriber has of it."""

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
        """Whether it matters for this topic who is in which rack."""
        return matters(self.subscribers, [racks.get(partition, frozenset[str]()) for partition in self.partitions])

    def room(self, member: Subscriber) -> int:
        """How many more partitions it may have."""
        return max(0, self._each + (self._extras > 0) - self._has[member.member_id])

    def give(self, member: Subscriber, partitions: Iterable[Partition]) -> None:
        """They are its."""
        for partition in partitions:
            del self._left[partition]
            self._owned[member.member_id].append(partition)
            self._has[member.member_id] += 1
        if self._has[member.member_id] > self._each:
            self._extras -= 1

    def share_runs(self, racks: Racks | None = None) -> None:
        """Each subscriber in order gets the first ones that are left; with ``racks``, of those it is near."""
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
    """Partitions of one number to the first member that is near all of them and has room for them."""
    for same_number in zip(*(topic.partitions for topic in topics), strict=True):
        each = list(zip(topics, same_number, strict=True))
        for member in topics[0].subscribers:
            if all(topic.room(member) and _near(member, partition, racks) for topic, partition in each):
                for topic, partition in each:
                    topic.give(member, [partition])
                break
