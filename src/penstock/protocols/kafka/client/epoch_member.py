"""The states of a member of a newer group (KIP-848), as the member sees it: prose, table.

The coordinator decides who gets what and tells it in answers to heartbeats, together with an epoch, which the member
says in all that it asks. A member is **UNJOINED** until it asks to take part. In **JOINING** its heartbeat of epoch 0
is on its way; the answer makes it a member, with something to own or nothing yet. It is **STABLE** while what it owns
is what the coordinator wants it to own. Else it is **RECONCILING**: it owns what it did until the engine has found time
to give up what others shall have. In **ACKNOWLEDGING** the engine has, and the member says what it owns now.
**REPLACED** is final: another process has this instance id. Who has **LEFT** may join again.

Three rules of this file. First, a member has one heartbeat on its way at a time, whoever sends it (the engine sees to
that): two could overtake each other's epochs, and be fenced for it. Second, an event is the answer to a request of the
present epoch. Third, a member whose epoch is forgotten owns nothing.

Source: KIP-848, "Member State Machine"; brokers of 4.3.1.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.groups.tables import Table

__all__ = ["ASKING", "TABLE", "Effect", "Event", "Row", "State", "event_of"]


class State(enum.Enum):
    """Where a member stands."""

    UNJOINED = "takes no part"
    JOINING = "asks to take part"
    STABLE = "owns what it is to own"
    RECONCILING = "is to own something else than it does"
    ACKNOWLEDGING = "says what it owns now"
    REPLACED = "was replaced by another process with its instance id"
    LEFT = "has left"


class Event(enum.Enum):
    """What happens to a member: an answer, by what it means, or something its own process does."""

    JOIN = "asked to take part, or to say what it owns now"
    LEAVE = "asked to leave"
    GIVEN_UP = "the join was cancelled, or failed for good"
    AS_IT_IS = "no error: it owns what it is to own"
    ANOTHER_TARGET = "no error: it is to own something else"
    DROPPED = "FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: the group has gone on without this member"
    NO_GROUP = "GROUP_ID_NOT_FOUND: there is no such group of this protocol"
    REPLACED = "FENCED_INSTANCE_ID: another process has this instance id"
    HELD = "UNRELEASED_INSTANCE_ID: another process has this instance id, and is there"
    HELD_BY_ITSELF = "UNRELEASED_INSTANCE_ID: whoever has it is this member, as the coordinator last heard of it"
    LOADING = "the coordinator is not ready yet"
    MOVED = "the coordinator is another one, or out of reach"
    REFUSED = "any other error: it will not pass by itself"


class Effect(enum.Enum):
    """What a row does beside changing the state."""

    FORGET_EPOCH = "no member any more"
    FIND_COORDINATOR = "ask who the coordinator is"
    BACK_OFF = "wait before the next attempt"
    STEP_ASIDE = "tell the coordinator that this static member is away for the moment"
    LOSE = "what this member owned belongs to others"
    REJOIN = "the engine is told to give up what is not this member's, and to join again"
    RAISE = "the error is the caller's"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_S: Final = State
_E: Final = Event
_AGAIN: Final = (Effect.BACK_OFF,)
_ELSEWHERE: Final = (Effect.FIND_COORDINATOR, Effect.BACK_OFF)
_REPLACED: Final = Row(State.REPLACED, (Effect.FORGET_EPOCH, Effect.RAISE))
_LOST: Final = Row(State.UNJOINED, (Effect.FORGET_EPOCH, Effect.LOSE))
_LEFT: Final = Row(State.LEFT, (Effect.FORGET_EPOCH,))

ASKING: Final = frozenset({State.JOINING, State.ACKNOWLEDGING})
"""States in which a join goes on until the coordinator has answered."""

_JOINING: Final[Mapping[Event, Row]] = {
    _E.AS_IT_IS: Row(_S.STABLE),
    # As a member it was fenced before this join; of what the coordinator remembers nothing is left after an epoch 0.
    _E.DROPPED: Row(_S.JOINING, (Effect.FORGET_EPOCH, Effect.BACK_OFF)),
    _E.NO_GROUP: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.REPLACED: _REPLACED,
    _E.HELD: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.HELD_BY_ITSELF: Row(_S.JOINING, (Effect.STEP_ASIDE, Effect.BACK_OFF)),
    _E.LOADING: Row(_S.JOINING, _AGAIN),
    _E.MOVED: Row(_S.JOINING, _ELSEWHERE),
    _E.REFUSED: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.GIVEN_UP: Row(_S.UNJOINED),
}

_ACKNOWLEDGING: Final[Mapping[Event, Row]] = {
    _E.AS_IT_IS: Row(_S.STABLE),
    # The target has changed again meanwhile; what is new and free is taken at once, the rest is given up next.
    _E.ANOTHER_TARGET: Row(_S.RECONCILING, (Effect.REJOIN,)),
    _E.DROPPED: Row(_S.JOINING, (Effect.FORGET_EPOCH,)),
    _E.NO_GROUP: Row(_S.JOINING, (Effect.FORGET_EPOCH,)),
    _E.REPLACED: _REPLACED,
    _E.LOADING: Row(_S.ACKNOWLEDGING, _AGAIN),
    _E.MOVED: Row(_S.ACKNOWLEDGING, _ELSEWHERE),
    _E.REFUSED: Row(_S.RECONCILING, (Effect.RAISE,)),
    # It is still a member, and says what it owns when it joins again.
    _E.GIVEN_UP: Row(_S.RECONCILING),
}

_OWNING: Final[Mapping[Event, Row]] = {
    _E.JOIN: Row(_S.ACKNOWLEDGING),
    _E.LEAVE: _LEFT,
    _E.ANOTHER_TARGET: Row(_S.RECONCILING, (Effect.REJOIN,)),
    _E.DROPPED: _LOST,
    _E.NO_GROUP: _LOST,
    _E.REPLACED: _REPLACED,
}

_STABLE: Final[Mapping[Event, Row]] = {
    **_OWNING,
    _E.AS_IT_IS: Row(_S.STABLE),
    # The session goes on as long as a later heartbeat arrives in time.
    _E.LOADING: Row(_S.STABLE),
    _E.MOVED: Row(_S.STABLE, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.STABLE, (Effect.RAISE,)),
}

_RECONCILING: Final[Mapping[Event, Row]] = {
    **_OWNING,
    # The engine has been told already, and finds nothing to give up when it comes.
    _E.AS_IT_IS: Row(_S.RECONCILING),
    _E.LOADING: Row(_S.RECONCILING),
    _E.MOVED: Row(_S.RECONCILING, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.RECONCILING, (Effect.RAISE,)),
}

TABLE: Final = Table(
    "a member of a newer group, as it sees itself",
    {
        State.UNJOINED: {_E.JOIN: Row(_S.JOINING), _E.LEAVE: _LEFT},
        State.JOINING: _JOINING,
        State.STABLE: _STABLE,
        State.RECONCILING: _RECONCILING,
        State.ACKNOWLEDGING: _ACKNOWLEDGING,
        State.REPLACED: {_E.LEAVE: Row(_S.REPLACED)},
        State.LEFT: {_E.JOIN: Row(_S.JOINING), _E.LEAVE: _LEFT},
    },
)

_MEANING: Final[Mapping[int, Event]] = {
    14: Event.LOADING,
    15: Event.MOVED,
    16: Event.MOVED,
    25: Event.DROPPED,
    69: Event.NO_GROUP,
    82: Event.REPLACED,
    110: Event.DROPPED,
    111: Event.HELD,
}


def event_of(error: PenstockError) -> Event:
    """What an answer that is an error, or none at all, means to a member.

    >>> event_of(ConnectionLost("gone"))
    <Event.MOVED: 'the coordinator is another one, or out of reach'>
    """
    if isinstance(error, (ConnectionLost, RequestTimeout)):
        return Event.MOVED
    if isinstance(error, ServerError):
        by_code = Event.LOADING if error.retriable else Event.REFUSED
        return _MEANING.get(error.code, by_code)
    return Event.REFUSED
