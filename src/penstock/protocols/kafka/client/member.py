"""The states of a member of a classic consumer group, as the member sees it: prose, table.

A member is **UNJOINED** until it asks to take part. In **JOINING** its JoinGroup lies with the coordinator, which
answers when every member has asked (or the rebalance timeout is over); that answer begins a generation. In **SYNCING**
the leader has sent, or this member awaits, who gets what. With the assignment it is **STABLE** and lives on by
heartbeats. **FENCED** is final: another process has this instance id. Who has **LEFT** may join again, under a new
member id.

Two rules of this file. First, an event is the answer to a request of *this* generation: answers to older ones are
dropped before they get here. Second, a row says the next state and what is to be done about identity and coordinator;
what is asked next follows from the state (`membership`). Pairs without a row cannot happen.

Sources: Kafka protocol guide (JoinGroup, SyncGroup, Heartbeat, LeaveGroup); KIP-62, KIP-345, KIP-394.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.groups.tables import Table

__all__ = ["TABLE", "Effect", "Event", "Row", "State", "event_of"]


class State(enum.Enum):
    """Where a member stands."""

    UNJOINED = "takes no part"
    JOINING = "waits until all members have joined"
    SYNCING = "waits for the assignment"
    STABLE = "has its assignment"
    FENCED = "was replaced by another process with its instance id"
    LEFT = "has left"


class Event(enum.Enum):
    """What happens to a member: an answer, by what it means, or something its own process does."""

    JOIN = "asked to take part"
    LEAVE = "asked to leave"
    GIVEN_UP = "the join was cancelled, or failed for good"
    OK = "no error"
    NEEDS_ID = "MEMBER_ID_REQUIRED: join again with the id given"
    REBALANCING = "REBALANCE_IN_PROGRESS: the others are joining"
    OLD_GENERATION = "ILLEGAL_GENERATION: the group has gone on"
    UNKNOWN = "UNKNOWN_MEMBER_ID: the coordinator has dropped this member"
    FENCED = "FENCED_INSTANCE_ID: another process has this instance id"
    LOADING = "the coordinator is not ready yet"
    MOVED = "the coordinator is another one, or out of reach"
    REFUSED = "any other error: it will not pass by itself"


class Effect(enum.Enum):
    """What a row does beside changing the state."""

    KEEP_ID = "take the member id from the answer"
    FORGET_GENERATION = "no longer of this generation"
    FORGET_IDENTITY = "neither of this generation nor this member id"
    FIND_COORDINATOR = "ask who the coordinator is"
    BACK_OFF = "wait before the next attempt"
    LOSE = "what this member owned belongs to others"
    REJOIN = "the engine is told to join again"
    RAISE = "the error is the caller's"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_S: Final = State
_E: Final = Event
_AGAIN: Final = (Effect.BACK_OFF,)
_ELSEWHERE: Final = (Effect.FIND_COORDINATOR, Effect.BACK_OFF)
_FENCED: Final = Row(State.FENCED, (Effect.FORGET_IDENTITY, Effect.RAISE))

_UNJOINED: Final[Mapping[Event, Row]] = {
    _E.JOIN: Row(_S.JOINING),
    _E.LEAVE: Row(_S.LEFT, (Effect.FORGET_IDENTITY,)),
}

_JOINING: Final[Mapping[Event, Row]] = {
    _E.OK: Row(_S.SYNCING, (Effect.KEEP_ID,)),
    _E.NEEDS_ID: Row(_S.JOINING, (Effect.KEEP_ID,)),
    _E.REBALANCING: Row(_S.JOINING),
    _E.OLD_GENERATION: Row(_S.JOINING, (Effect.FORGET_GENERATION,)),
    _E.UNKNOWN: Row(_S.JOINING, (Effect.FORGET_IDENTITY,)),
    _E.FENCED: _FENCED,
    _E.LOADING: Row(_S.JOINING, _AGAIN),
    _E.MOVED: Row(_S.JOINING, _ELSEWHERE),
    _E.REFUSED: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.GIVEN_UP: Row(_S.UNJOINED, (Effect.FORGET_GENERATION,)),
}

_SYNCING: Final[Mapping[Event, Row]] = {
    _E.OK: Row(_S.STABLE),
    # The generation is over before it began: some member came or went.
    _E.REBALANCING: Row(_S.JOINING),
    _E.OLD_GENERATION: Row(_S.JOINING, (Effect.FORGET_GENERATION,)),
    _E.UNKNOWN: Row(_S.JOINING, (Effect.FORGET_IDENTITY,)),
    _E.FENCED: _FENCED,
    _E.LOADING: Row(_S.JOINING, _AGAIN),
    # The assignment may have been stored or not; joining again tells.
    _E.MOVED: Row(_S.JOINING, _ELSEWHERE),
    _E.REFUSED: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.GIVEN_UP: Row(_S.UNJOINED, (Effect.FORGET_GENERATION,)),
}

_STABLE: Final[Mapping[Event, Row]] = {
    _E.JOIN: Row(_S.JOINING),
    _E.LEAVE: Row(_S.LEFT, (Effect.FORGET_IDENTITY,)),
    _E.OK: Row(_S.STABLE),
    # Until it joins again this member keeps what it has, and may still commit.
    _E.REBALANCING: Row(_S.STABLE, (Effect.REJOIN,)),
    _E.OLD_GENERATION: Row(_S.UNJOINED, (Effect.FORGET_GENERATION, Effect.LOSE)),
    _E.UNKNOWN: Row(_S.UNJOINED, (Effect.FORGET_IDENTITY, Effect.LOSE)),
    _E.FENCED: _FENCED,
    # The session goes on as long as a later heartbeat arrives in time.
    _E.LOADING: Row(_S.STABLE),
    _E.MOVED: Row(_S.STABLE, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.STABLE, (Effect.RAISE,)),
}

TABLE: Final = Table(
    "a member of a group",
    {
        State.UNJOINED: _UNJOINED,
        State.JOINING: _JOINING,
        State.SYNCING: _SYNCING,
        State.STABLE: _STABLE,
        State.FENCED: {_E.LEAVE: Row(_S.FENCED)},
        State.LEFT: {_E.JOIN: Row(_S.JOINING), _E.LEAVE: Row(_S.LEFT)},
    },
)


_MEANING: Final[Mapping[int, Event]] = {
    14: Event.LOADING,
    15: Event.MOVED,
    16: Event.MOVED,
    22: Event.OLD_GENERATION,
    25: Event.UNKNOWN,
    27: Event.REBALANCING,
    79: Event.NEEDS_ID,
    82: Event.FENCED,
}


def event_of(error: PenstockError | None) -> Event:
    """What an answer means to a member."""
    if error is None:
        return Event.OK
    if isinstance(error, (ConnectionLost, RequestTimeout)):
        return Event.MOVED
    if isinstance(error, ServerError):
        return _MEANING.get(error.code, Event.LOADING if error.retriable else Event.REFUSED)
    return Event.REFUSED
