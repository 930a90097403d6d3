"""What a group's members are told: how to take part, what a heartbeat says, and that all is lost.

What must not live here: what a member can do (`client.Membership`).
"""

from __future__ import annotations

import enum

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError
from penstock.model import Partition

__all__ = ["Beat", "Dropped", "GroupOptions", "Verdict"]


class Verdict(enum.Enum):
    STEADY = "steady"
    REJOIN = "rejoin"  # call join() again; partitions may be kept or not, as the Membership's rebalance() says
    LOST = "lost"  # this member's identity is gone: everything it owned belongs to others


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat told: a verdict, and for event-driven protocols partitions taken and given at once.

    ``revoked`` are still this member's until it gives them back; ``lost`` are others' already.
    """

    verdict: Verdict
    revoked: frozenset[Partition] = frozenset()
    assigned: frozenset[Partition] = frozenset()
    reason: str = ""
    lost: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """How this member takes part; times in ms, defaults of Kafka's Java consumer 4.x.

    ``protocol``: "classic", or "consumer" where the log has a second protocol by which servers share out (KIP-848):
    then ``remote_assignor`` is the server's to know, and it says how often it wants to hear of members.
    """

    group: str
    client_id: str = ""
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    assignors: tuple[str | type[object], ...] = ("range", "cooperative-sticky")
    protocol: str = "classic"
    remote_assignor: str | None = None

    def need_classic(self, log: str) -> None:
        """Raise ConfigError where ``protocol`` is another one, which this log does not have."""
        if self.protocol != "classic":
            raise ConfigError(
                f"group_protocol is {self.protocol!r}, but {log} has one protocol for its groups", hint="Leave it out"
            )


class Dropped(Exception):
    """Of ``Membership.join``: the group went on without this member, and what it had kept belongs to others by now."""
