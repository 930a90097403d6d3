"""What is known of one rebalance: why, who, how long, and what moved.

Data only; `groups.rebalances` keeps it, and says it in words.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, field
from typing import Any

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["Rebalance", "RebalanceCause", "RebalanceEnding", "RebalanceMove", "RebalanceReason"]


class RebalanceCause(enum.StrEnum):
    """What began a rebalance, or happened while members joined."""

    JOINED = "joined"
    CAME_BACK = "came back under its instance id with other protocols"
    CHANGED = "changed what it reads"
    OWNS_OTHERS = "joined again with other partitions than before"
    TOLD_OTHERS = "joined again and told the others something new"
    LEADER_ASKED = "leads and asked for a new assignment"
    LEFT = "left"
    TAKEN_OUT = "was taken out by its instance id"
    EXPIRED = "was not heard of"
    NOT_JOINED = "did not join again"
    NOT_SYNCED = "did not ask for its assignment"
    NOT_REVOKED = "did not give up what it was told to"
    TOPICS_CHANGED = "found other topics or partitions than before"
    REFUSED = "found the group full"
    LOG_REFUSED = "brought an assignment that the log refused"


class RebalanceEnding(enum.StrEnum):
    """How a rebalance ended."""

    UNDER_WAY = "under way"
    ASSIGNED = "assigned"
    GIVEN_UP = "another one began first"
    DESERTED = "nobody was left"


@dataclass(frozen=True, slots=True)
class RebalanceReason:
    """``after_ms``: how long was waited, where somebody was waited for; ``said``: the member's own words (KIP-800)."""

    why: RebalanceCause
    member: str
    client: str = ""
    after_ms: int = 0
    said: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceMove:
    """What a member ``lost`` and ``gained``: the first of them by name, and how many in all."""

    member: str
    lost: tuple[Partition, ...]
    gained: tuple[Partition, ...]
    lost_total: int
    gained_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """``generation`` is what it led to, -1 before. Times are milliseconds, ``began_ms`` since 1970 UTC.

    ``join_ms``: until all had joined, or were not waited for any more; ``last_joined`` was the slowest of those who
    did. ``assign_ms``: until the ``leader`` had brought the assignment; ``store_ms``: until the log had it.
    ``reasons`` and ``moved`` are the first of so many ``reasons_total``, ``moved_total``; the latter is -1 in groups of
    others than consumers, for only they know what they share.
    """

    began_ms: int
    ending: RebalanceEnding = RebalanceEnding.UNDER_WAY
    generation: int = -1
    members: int = 0
    leader: str = ""
    protocol: str = ""
    reasons: tuple[RebalanceReason, ...] = ()
    reasons_total: int = 0
    join_ms: int = 0
    last_joined: str = ""
    assign_ms: int = 0
    store_ms: int = 0
    moved: tuple[RebalanceMove, ...] = field(default=())
    moved_total: int = 0

    @property
    def took_ms(self) -> int:
        """All of it."""
        return self.join_ms + self.assign_ms + self.store_ms

    def as_fields(self) -> dict[str, Any]:
        """For JSON: fields by their names, those of partitions, too."""
        fields = asdict(self)
        for move in fields["moved"]:
            for name in ("lost", "gained"):
                move[name] = [partition._asdict() for partition in move[name]]
        return fields
