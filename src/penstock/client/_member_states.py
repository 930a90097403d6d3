"""Where a consumer stands with its group: a table.

A consumer is OUT until it joins. JOINING it waits for the others; what its group lets it keep meanwhile is its own.
IN it owns partitions and its heartbeats keep them.
STALE it is still a member, but the group is sharing out anew: what it owns stays its own until it has revoked it, in
the next poll, and joined again. GONE the group went on without it: what it owned belongs to others already. FENCED
somebody else has taken its identity, and it must not come back by itself.

Rule 1: only a poll takes a consumer from STALE or GONE to JOINING, since partitions must not vanish under user code.
Rule 2: nothing but a new subscription leads out of FENCED.
"""

from __future__ import annotations

import enum
from typing import Final

from penstock.groups.tables import Table

__all__ = ["TABLE", "Event", "State"]


class State(enum.Enum):
    """What this consumer is to its group."""

    OUT = "out"
    JOINING = "joining"
    IN = "in"
    STALE = "stale"
    GONE = "gone"
    FENCED = "fenced"


class Event(enum.Enum):
    """What can happen to a member."""

    JOIN = "a poll starts to join"
    JOINED = "the group answered with an assignment"
    FAILED = "joining failed, and can be tried again"
    REJOIN = "the group shares out anew, or this member wants it to"
    LOST = "the group no longer knows this member"
    OVERDUE = "no poll came in time, so the member left"
    TAKEN = "another process took this member's identity"
    LEFT = "the application closed or unsubscribed"


TABLE: Final = Table(
    "a group member",
    {
        State.OUT: {
            Event.JOIN: State.JOINING,
            Event.REJOIN: State.OUT,
            Event.LEFT: State.OUT,
        },
        State.JOINING: {
            Event.JOINED: State.IN,
            Event.FAILED: State.OUT,
            Event.REJOIN: State.JOINING,
            Event.LOST: State.GONE,
            Event.OVERDUE: State.GONE,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
        State.IN: {
            Event.REJOIN: State.STALE,
            Event.LOST: State.GONE,
            Event.OVERDUE: State.GONE,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
        State.STALE: {
            Event.JOIN: State.JOINING,
            Event.REJOIN: State.STALE,
            Event.LOST: State.GONE,
            Event.OVERDUE: State.GONE,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
        State.GONE: {
            Event.JOIN: State.JOINING,
            Event.REJOIN: State.GONE,
            Event.LOST: State.GONE,
            Event.LEFT: State.OUT,
        },
        State.FENCED: {
            Event.REJOIN: State.FENCED,
            Event.LOST: State.FENCED,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
    },
)
