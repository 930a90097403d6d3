"""What the coordinator is asked and what it answers, as plain data; the front translates wire messages to these.

A request that may have to wait carries ``reply``, which is called exactly once, at once or later, unless the client's
connection goes away first (then the call does no harm). Tuples, because there are several a request, and frozen
dataclasses take five times as long to make. What must not live here: API versions and error numbers' rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.protocols.kafka.error_codes import ErrorCode

__all__ = [
    "CommitIdentity",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "Leaver",
    "Protocols",
    "Sync",
    "SyncAnswer",
]

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of each protocol a member can follow, preferred first."""


class JoinedMember(NamedTuple):
    """A member as the leader learns of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """``members`` is filled for the leader only; ``protocol_name`` is None where no generation was entered."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncAnswer(NamedTuple):
    """``assignment`` is what the leader sent for this member; empty where it sent none."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Join(NamedTuple):
    """JoinGroup. ``needs_member_id``: a new dynamic member gets an id first and joins with it (v4, KIP-394).

    ``may_skip_assignment``: a leader that came back understands SkipAssignment (v9, KIP-814). ``reason``: why it joins,
    in its own words (v8, KIP-800).
    """

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reply: Callable[[JoinAnswer], None]
    needs_member_id: bool = True
    may_skip_assignment: bool = True
    reason: str = ""


class Sync(NamedTuple):
    """SyncGroup. ``assignments`` by member id, from the leader only; None for names that old versions do not carry."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    reply: Callable[[SyncAnswer], None]


class Leaver(NamedTuple):
    """One who leaves (or is removed by an operator): by member id, or by instance id alone.

    ``reason``: in its own words (v5, KIP-800).
    """

    member_id: str
    instance_id: str | None = None
    reason: str = ""


class CommitIdentity(NamedTuple):
    """Who commits offsets: a member in a generation, or nobody (generation -1, no ids). ``host``: from where."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
    host: str | None = None

    @property
    def anonymous(self) -> bool:
        """No identity at all: an operator, or a consumer that assigns partitions to itself."""
        return self.generation < 0 and not self.member_id and self.instance_id is None


LeaveResults = Sequence[tuple[Leaver, ErrorCode]]
