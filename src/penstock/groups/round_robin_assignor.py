"""The round-robin assignor: all partitions of all topics dealt out like cards (Kafka's ``roundrobin``).

Partitions go topic by topic, by name and number; members take turns in order, and one that has not subscribed to the
topic at hand is passed over. Who has which partition says nothing about who had it before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.groups.assignor import Assignor, Racks, Subscriber, in_order
from penstock.model import Partition

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(Assignor):
    """`Assignor` by turns; the same as Kafka's Java client."""

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
