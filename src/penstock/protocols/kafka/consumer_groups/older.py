"""What members of the older protocol say of themselves, inside JoinGroup: wants, and what they own; and their shares.

Members of both protocols meet in a group of the newer one while it is converted (KIP-848, "Upgrading to the new
protocol"). What must not live here: what becomes of what they say (`older_members`, `converting`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.consumer_groups.requests import Place, Topic
from penstock.protocols.kafka.coordinator.requests import Protocols
from penstock.protocols.kafka.messages.consumer_protocol import (
    HIGHEST,
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_subscription,
    write_assignment,
)

__all__ = ["CONSUMER", "Older", "owned_by", "share", "spoken"]

CONSUMER = "consumer"
"""The protocol type whose members can be in a group of the newer protocol."""
_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Older:
    """A member that speaks the older protocol: what it can follow, preferred first, and how long it may be silent."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol(self) -> str:
        """The one whose form its shares have."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """What it says of itself; the same in each of its protocols."""
        return self.protocols[0][1]


def spoken(protocols: Protocols) -> Subscription:
    """What a member wants and owns. Raises ProtocolViolation where nobody can tell."""
    return read_subscription(protocols[0][1] if protocols else b"")


def owned_by(subscription: Subscription, topics: Mapping[str, Topic]) -> frozenset[Place]:
    """What it says that it owns, as far as there are such topics."""
    return frozenset(
        (topics[each.topic].id, number)
        for each in subscription.owned_partitions
        if each.topic in topics
        for number in each.partitions
    )


def share(places: Iterable[Place], names: Mapping[bytes, str], metadata: bytes) -> bytes:
    """Partitions as the member with that ``metadata`` reads them: in the version that it writes itself.

    Those of topics without a name here are left out.
    """
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        if topic in names:
            found.setdefault(names[topic], []).append(number)
    parts = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in sorted(found.items())]
    version = min(_VERSION.unpack_from(metadata)[0], HIGHEST)
    return write_assignment(MemberAssignment(assigned_partitions=parts), version)
