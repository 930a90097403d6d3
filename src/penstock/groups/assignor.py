"""What an assignor is: a pure function from members and partitions to owners. Each assignor has a file of its own.

Used by whoever shares out a group's partitions: a leader among the members (Kafka's classic protocol), the server
(TubeMQ), or each member for itself (RocketMQ). What must not live here: waiting, clocks, bytes of a protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["NO_GENERATION", "Assignor", "Racks", "Shares", "Subscriber", "in_order", "subscribers_by_topic"]

NO_GENERATION = -1

Racks: TypeAlias = Mapping[Partition, frozenset[str]]
"""Where the copies of each partition are; a partition is absent where nobody says."""

Shares: TypeAlias = Mapping[str, Sequence[Partition]]
"""Owned partitions by member id."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as an assignor sees it.

    ``owned`` and ``generation`` are what the member says it had before (empty and -1 where its protocol does not tell);
    ``user_data`` are bytes that the member's own assignor added (`Assignor.user_data`), None if it added none.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: frozenset[Partition] = frozenset()
    generation: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes | None = None


class Assignor(ABC):
    """Shares partitions among a group's members. Derive from it for an assignor of your own, and give the class to the
    consumer (``assignors=[Mine]``), which makes one object of it: every member of the group has to know it.

    >>> class Everything(Assignor):
    ...     name = "everything-to-one"
    ...     def assign(self, members, partitions, racks):
    ...         first = min(member.member_id for member in members)
    ...         return {first: [each for of_topic in partitions.values() for each in of_topic]}
    """

    name: str
    """What members agree on over the wire."""

    cooperative: bool = False
    """True if members may keep what they own while a rebalance goes on.

    Then ``assign`` must never give a partition to a member while another one says that it owns it: it leaves the
    partition out, the owner gives it up and joins again, and it can be given away then.
    """

    @abstractmethod
    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> Shares:
        """Owners by member id. Whoever is not named gets nothing; no partition has two owners.

        Called in the member that leads the group. ``partitions`` has each known topic's partitions in order; a
        subscribed topic it lacks does not exist (yet). ``racks`` is empty where nodes do not tell theirs.
        The answer should not depend on the order of ``members``.
        """

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """What this member adds to its subscription for the leader's ``assign``; asked before each join."""
        del topics
        return None

    def assigned(self, partitions: frozenset[Partition], generation: int) -> None:
        """This member has got these. Called after each rebalance that this assignor shared out."""
        del partitions, generation


def in_order(members: Iterable[Subscriber]) -> list[Subscriber]:
    """Members with an instance id first, by it; then the others by member id (KIP-345: places outlive restarts)."""
    return sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id, one.member_id))


def subscribers_by_topic(members: Iterable[Subscriber]) -> dict[str, list[Subscriber]]:
    """Each topic's subscribers in order; topics by name."""
    found: dict[str, list[Subscriber]] = {}
    for member in in_order(members):
        for topic in member.topics:
            found.setdefault(topic, []).append(member)
    return dict(sorted(found.items()))
