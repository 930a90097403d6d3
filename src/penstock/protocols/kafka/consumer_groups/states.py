"""The states of a member of a newer group (KIP-848), and what each of its heartbeats does: prose, table.

The coordinator shares out a group's partitions as soon as somebody comes, goes or wants something else; what a member
is to have in the end is its **target**, and targets have a number, the **target epoch**. Members get there one by one
and in two steps, because no partition may have two owners. A **STABLE** member has what it was told and nothing more to
wait for. Whoever has partitions that its target gives to others is told to give them up, and is **UNREVOKED** until a
heartbeat of its no longer names them; meanwhile it stays in the epoch it is in. Then it enters the target's epoch and
takes what is free of its target. If some of it still belongs to somebody who has not given it up, it is **UNRELEASED**,
and takes the rest with a later heartbeat. Partitions that are yet to be given up belong to their member as much as
those it keeps.

Two rules of this file. First, an event is what a heartbeat finds when it compares what the member has and says with its
target (`reconciling`); who may beat at all is asked before (`checking`). Second, a row says the next state and, in
order, the effects; a member that leaves, or is not heard of, leaves the group, which needs no state.

Source: KIP-848, "Member Epoch - Reconciliation", and what brokers of 4.3.1 answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.groups.tables import Key, Table

__all__ = ["TABLE", "Effect", "Event", "MemberState", "Row"]


class MemberState(Key):
    """Values are those of Kafka's records."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class Event(Key):
    """What a heartbeat finds."""

    ARRIVED = "the member is in the target's epoch"
    STILL_OWNS = "it has not given up what it was told to"
    MUST_REVOKE = "it owns partitions that its target gives to others"
    SOME_HELD = "others own some of what its target gives it"
    ALL_FREE = "all that its target gives it is free or its own"


class Effect(Key):
    """What a row does, in `reconciling`."""

    REVOKE = "keep what the target leaves it; the rest is to be given up, in time"
    TAKE = "own what is free of the target"
    ENTER = "enter the target's epoch"


class Row(NamedTuple):
    """One cell of the table."""

    next: MemberState
    effects: tuple[Effect, ...] = ()


_S: Final = MemberState
_E: Final = Event
_REVOKE: Final = Row(_S.UNREVOKED, (Effect.REVOKE,))
_FORWARD: Final[Mapping[Event, Row]] = {
    _E.MUST_REVOKE: _REVOKE,
    _E.SOME_HELD: Row(_S.UNRELEASED, (Effect.TAKE, Effect.ENTER)),
    _E.ALL_FREE: Row(_S.STABLE, (Effect.TAKE, Effect.ENTER)),
}

TABLE: Final = Table(
    "a member of a newer group",
    {
        _S.STABLE: {_E.ARRIVED: Row(_S.STABLE), **_FORWARD},
        _S.UNREVOKED: {_E.STILL_OWNS: Row(_S.UNREVOKED), **_FORWARD},
        # Being in the target's epoch is not enough: what it waits for may be free now.
        _S.UNRELEASED: _FORWARD,
    },
)
