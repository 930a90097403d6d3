"""What an assignor is: a pure function from members and partitions to owners. Each assignor has a file of its own.

Used by whoever shares out a group's partitions: a leader among the members (Kafka's classic protocol), the server
(TubeMQ), or each member for itself (RocketMQ). What must not live here: waiting, clocks, bytes of a protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.model import Partition

__all__ = ["Assignor", "Subscriber", "in_order", "subscribers_by_topic"]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as an assignor sees it.

    ``owned`` and ``generation`` are what the member says it had before (empty and -1 where its protocol does not tell);
    ``user_data`` are bytes that the assignor itself put into an earlier subscription.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: frozenset[Partition] = frozenset()
    generation: int = -1
    rack: str | None = None
    user_data: bytes = b""


class Assignor(Protocol):
    """Shares partitions among members. ``name`` is what members agree on over the wire."""

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool:
        """True if members may keep what they own while a rebalance goes on."""
        ...

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]]
    ) -> Mapping[str, tuple[Partition, ...]]:
        """Owners by member id: every member is named, every partition of a subscribed topic has one owner.

        ``partitions`` has each known topic's partitions in order; a subscribed topic it lacks does not exist (yet).
        The answer must not depend on the order of ``members``.
        """
        ...


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
