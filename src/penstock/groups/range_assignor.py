"""The range assignor: each topic's partitions in consecutive runs, one run a member (Kafka's ``range``).

Members in order get the runs in order, and the first ones get one more where it does not come out even; so topics
with equal partition counts are shared out alike, which joins of such topics rely on. Racks are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.groups.assignor import Subscriber, subscribers_by_topic
from penstock.model import Partition

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """``penstock.groups.assignor.Assignor`` by ranges; the same as Kafka's Java client without racks."""

    name = "range"
    cooperative = False

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]]
    ) -> Mapping[str, tuple[Partition, ...]]:
        """Owners by member id; see ``Assignor.assign``.

        >>> parts = {"t": [Partition("t", n) for n in range(5)]}
        >>> two = [Subscriber("a", frozenset({"t"})), Subscriber("b", frozenset({"t"}))]
        >>> [partition.id for partition in RangeAssignor().assign(two, parts)["a"]]
        [0, 1, 2]
        """
        owned: dict[str, list[Partition]] = {member.member_id: [] for member in members}
        for topic, subscribers in subscribers_by_topic(members).items():
            known = partitions.get(topic, ())
            each, extra = divmod(len(known), len(subscribers))
            start = 0
            for place, member in enumerate(subscribers):
                end = start + each + (1 if place < extra else 0)
                owned[member.member_id].extend(known[start:end])
                start = end
        return {member_id: tuple(run) for member_id, run in owned.items()}
