"""The states of a classic group and what each event does to it: prose, table.

A group lives through rounds. In **EMPTY** it has no members (perhaps offsets). The first member that joins opens the
join phase, **PREPARING**: the coordinator waits until every known member has (re)joined, or a timer ends the wait;
joins stay unanswered ("parked"). When the phase ends with members, a new generation begins: all parked joins are
answered, the leader's with the list of members, and the group is **COMPLETING**: it waits for the leader's SyncGroup,
which carries the assignment. Once that is stored, every parked sync is answered and the group is **STABLE**. Anything
that changes who is in the group, or what they want, leads back to PREPARING. **DEAD** is final; the group is gone from
the table of groups, so nothing happens to it any more.

Two rules of this file. First, an event is what is left of a request or a timer after its own checks (wrong member id,
wrong generation, …: `joining`, `membership`, `coordinator`): those need no state. Second, a row says the next state
and, in order, the effects (`effects`); code that is not an effect of some row never changes a state. Pairs without a
row cannot happen: a member of an EMPTY group cannot leave it, a timer is cancelled where its state ends.

Sources: KIP-62, KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member ids), KIP-800, KIP-814.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.groups.tables import Key, Table

__all__ = ["TABLE", "Effect", "Event", "Row", "State"]


class State(enum.StrEnum):
    """States by their names on the wire."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Key):
    """What happens to a group."""

    ADDED = "a new member joined"
    REJOINED = "a member joined again with what it had before"
    LEADER_REJOINED = "the leader joined again with what it had before"
    CHANGED = "a member joined again with other metadata"
    TAKEN_OVER = "a static member came back under a new id, the protocol stays"
    TAKEN_OVER_CHANGED = "a static member came back under a new id, the protocol changes"
    REMOVED = "a member left or its session expired"
    PENDING_GONE = "a member id that was handed out and never joined is given up"
    JOIN_DUE = "the join phase's timer fired"
    JOINED = "the join phase is over, members are there"
    DESERTED = "the join phase is over, nobody is there"
    SYNCED = "a follower asks for its assignment"
    LEADER_SYNCED = "the leader brings the assignment"
    STORED = "the assignment is in the log"
    STORE_FAILED = "the log refused the assignment"
    SYNC_DUE = "some members did not ask for their assignment in time"
    HEARTBEAT = "a member is alive"
    COMMIT = "a member commits offsets"
    COMMIT_ALONE = "somebody who is no member commits offsets"
    DELETE = "the group is to be deleted"


class Effect(Key):
    """What a row does, in `effects`; the ANSWER_ ones answer the request that brought the event."""

    PARK_JOIN = "keep the join unanswered until the phase ends"
    PARK_SYNC = "keep the sync unanswered until the assignment is stored"
    ANSWER_JOIN = "answer the join with the current generation"
    ANSWER_ASSIGNMENT = "answer the sync with the stored assignment"
    ANSWER_OK = "no error"
    ANSWER_REBALANCING = "REBALANCE_IN_PROGRESS"
    ANSWER_STRANGER = "UNKNOWN_MEMBER_ID"
    ANSWER_NOT_EMPTY = "NON_EMPTY_GROUP"
    TOUCH = "the member's session starts again"
    START_DELAY = "wait for more first members before the first generation"
    NOTE_NEWCOMER = "the initial delay is extended once more"
    START_JOIN_PHASE = "give all members the rebalance timeout to join"
    FAIL_SYNCS = "answer parked syncs with REBALANCE_IN_PROGRESS, forget assignments"
    FAIL_UNSTORED_SYNCS = "answer parked syncs with COORDINATOR_NOT_AVAILABLE, forget assignments"
    COMPLETE_IF_JOINED = "end the join phase if nobody is missing"
    END_WAIT = "the timer fired: extend the initial delay, or end the join phase with who is there"
    BEGIN_GENERATION = "choose a protocol, answer all parked joins, wait for syncs"
    FORGET_PROTOCOL = "a new generation without members; store it"
    STORE_ASSIGNMENT = "write the group to the log"
    STORE_TAKEOVER = "write the group to the log, then answer the join"
    HAND_OUT = "members get their assignments, parked syncs are answered"
    DROP_UNSYNCED = "remove the members that did not sync"
    DROP_PENDING = "ids that were handed out are worth nothing any more"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_E: Final = Event
_PARK_AND_CHECK: Final = Row(State.PREPARING, (Effect.PARK_JOIN, Effect.COMPLETE_IF_JOINED))
_PARK_AND_START: Final = Row(State.PREPARING, (Effect.PARK_JOIN, Effect.START_JOIN_PHASE))
_GIVE_UP: Final = (Effect.FAIL_SYNCS, Effect.START_JOIN_PHASE)
_PARK_AND_GIVE_UP: Final = Row(State.PREPARING, (Effect.PARK_JOIN, *_GIVE_UP))

_EMPTY: Final[Mapping[Event, Row]] = {
    _E.ADDED: Row(State.PREPARING, (Effect.PARK_JOIN, Effect.START_DELAY)),
    _E.PENDING_GONE: Row(State.EMPTY),
    _E.COMMIT_ALONE: Row(State.EMPTY, (Effect.ANSWER_OK,)),
    _E.DELETE: Row(State.DEAD, (Effect.DROP_PENDING, Effect.ANSWER_OK)),
}

_PREPARING: Final[Mapping[Event, Row]] = {
    _E.ADDED: Row(State.PREPARING, (Effect.PARK_JOIN, Effect.NOTE_NEWCOMER, Effect.COMPLETE_IF_JOINED)),
    _E.REJOINED: _PARK_AND_CHECK,
    _E.LEADER_REJOINED: _PARK_AND_CHECK,
    _E.CHANGED: _PARK_AND_CHECK,
    _E.TAKEN_OVER: _PARK_AND_CHECK,
    _E.TAKEN_OVER_CHANGED: _PARK_AND_CHECK,
    _E.REMOVED: Row(State.PREPARING, (Effect.COMPLETE_IF_JOINED,)),
    _E.PENDING_GONE: Row(State.PREPARING, (Effect.COMPLETE_IF_JOINED,)),
    _E.JOIN_DUE: Row(State.PREPARING, (Effect.END_WAIT,)),
    _E.JOINED: Row(State.COMPLETING, (Effect.BEGIN_GENERATION,)),
    _E.DESERTED: Row(State.EMPTY, (Effect.FORGET_PROTOCOL,)),
    _E.SYNCED: Row(State.PREPARING, (Effect.ANSWER_REBALANCING,)),
    _E.LEADER_SYNCED: Row(State.PREPARING, (Effect.ANSWER_REBALANCING,)),
    _E.HEARTBEAT: Row(State.PREPARING, (Effect.TOUCH, Effect.ANSWER_REBALANCING)),
    _E.COMMIT: Row(State.PREPARING, (Effect.TOUCH, Effect.ANSWER_OK)),
    _E.COMMIT_ALONE: Row(State.PREPARING, (Effect.ANSWER_STRANGER,)),
    _E.DELETE: Row(State.PREPARING, (Effect.ANSWER_NOT_EMPTY,)),
}

_COMPLETING: Final[Mapping[Event, Row]] = {
    _E.ADDED: _PARK_AND_GIVE_UP,
    # The answer to its first join was probably lost, or it would sync now.
    _E.REJOINED: Row(State.COMPLETING, (Effect.TOUCH, Effect.ANSWER_JOIN)),
    _E.LEADER_REJOINED: Row(State.COMPLETING, (Effect.TOUCH, Effect.ANSWER_JOIN)),
    _E.CHANGED: _PARK_AND_GIVE_UP,
    _E.TAKEN_OVER: _PARK_AND_GIVE_UP,
    _E.TAKEN_OVER_CHANGED: _PARK_AND_GIVE_UP,
    _E.REMOVED: Row(State.PREPARING, _GIVE_UP),
    _E.PENDING_GONE: Row(State.COMPLETING),
    _E.SYNCED: Row(State.COMPLETING, (Effect.PARK_SYNC,)),
    _E.LEADER_SYNCED: Row(State.COMPLETING, (Effect.PARK_SYNC, Effect.STORE_ASSIGNMENT)),
    _E.STORED: Row(State.STABLE, (Effect.HAND_OUT,)),
    _E.STORE_FAILED: Row(State.PREPARING, (Effect.FAIL_UNSTORED_SYNCS, Effect.START_JOIN_PHASE)),
    _E.SYNC_DUE: Row(State.PREPARING, (Effect.DROP_UNSYNCED, *_GIVE_UP)),
    _E.HEARTBEAT: Row(State.COMPLETING, (Effect.TOUCH, Effect.ANSWER_OK)),
    # Not ILLEGAL_GENERATION: the member shall commit again after its sync instead of starting over.
    _E.COMMIT: Row(State.COMPLETING, (Effect.ANSWER_REBALANCING,)),
    _E.COMMIT_ALONE: Row(State.COMPLETING, (Effect.ANSWER_STRANGER,)),
    _E.DELETE: Row(State.COMPLETING, (Effect.ANSWER_NOT_EMPTY,)),
}

_STABLE: Final[Mapping[Event, Row]] = {
    _E.ADDED: _PARK_AND_START,
    _E.REJOINED: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_JOIN)),
    # A leader joins again exactly when it wants to assign anew (its topics have more partitions now).
    _E.LEADER_REJOINED: _PARK_AND_START,
    _E.CHANGED: _PARK_AND_START,
    _E.TAKEN_OVER: Row(State.STABLE, (Effect.PARK_JOIN, Effect.STORE_TAKEOVER)),
    _E.TAKEN_OVER_CHANGED: _PARK_AND_START,
    _E.REMOVED: Row(State.PREPARING, (Effect.START_JOIN_PHASE,)),
    _E.PENDING_GONE: Row(State.STABLE),
    # Late or repeated: the answer was lost, or this member is slower than the leader.
    _E.SYNCED: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_ASSIGNMENT)),
    _E.LEADER_SYNCED: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_ASSIGNMENT)),
    _E.SYNC_DUE: Row(State.PREPARING, (Effect.DROP_UNSYNCED, Effect.START_JOIN_PHASE)),
    _E.HEARTBEAT: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_OK)),
    _E.COMMIT: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_OK)),
    _E.COMMIT_ALONE: Row(State.STABLE, (Effect.ANSWER_STRANGER,)),
    _E.DELETE: Row(State.STABLE, (Effect.ANSWER_NOT_EMPTY,)),
}

TABLE: Final = Table(
    "a group",
    {
        State.EMPTY: _EMPTY,
        State.PREPARING: _PREPARING,
        State.COMPLETING: _COMPLETING,
        State.STABLE: _STABLE,
    },
)
