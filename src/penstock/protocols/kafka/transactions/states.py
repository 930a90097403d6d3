"""The states of a transactional id and what each event does to it: prose, table.

An id is **EMPTY** when a producer has just taken it over. With the first partition that takes part a transaction is
**ONGOING**. Its end has two steps. First the decision is stored, **PREPARE_COMMIT** or **PREPARE_ABORT**: from then on
it will be carried out, whoever dies. Then every partition gets a marker, and when all have it, that is stored too:
**COMPLETE_COMMIT**, **COMPLETE_ABORT**. From there the next transaction begins. If an open transaction is ended by
somebody else than its producer (its time is over, or another producer takes the id over), the epoch is raised first so
that the markers fence it: **PREPARE_EPOCH_FENCE**, which is never stored. **DEAD** is final; the id is forgotten.

Two rules of this file. First, an event is what is left of a request after its checks (producer id, epoch, timeout:
`decisions`). Second, a row says the next state and the effects, in order; nothing else changes a state. In the second
version of the protocol (KIP-890, events ``…_2``) a producer gets a new epoch at each end. So an end that is asked for
again under the epoch before is known for what it is (``…_AGAIN``); in the first version it looks like a new one.

Pairs without a row cannot happen. Sources: KIP-98, KIP-360, KIP-588, KIP-890; state names of Kafka's coordinator.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.groups.tables import Table

__all__ = ["TABLE", "Effect", "Event", "Row", "State"]


class State(enum.StrEnum):
    """States by their names on the wire; `stored` has their numbers."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class Event(enum.Enum):
    """What happens to a transactional id."""

    INIT = "a producer takes it over"
    ADD = "partitions take part"
    COMMIT = "the producer wants to commit"
    ABORT = "the producer wants to abort"
    COMMIT_2 = "the producer wants to commit, and a new epoch"
    ABORT_2 = "the producer wants to abort, and a new epoch"
    COMMIT_AGAIN = "the producer wants to commit what was ended already"
    ABORT_AGAIN = "the producer wants to abort what was ended already"
    TIMED_OUT = "the transaction is open for too long"
    FENCED = "the epoch is raised"
    MARKED = "every partition has its marker"
    FORGET = "nobody has used it for a long time"


class Effect(enum.Enum):
    """What a row does; the ANSWER_ ones answer the request that brought the event."""

    NEW_EPOCH = "raise the epoch, or take a new producer id where it cannot be raised"
    FENCE = "raise the epoch by the one that is kept back for this"
    ADVANCE = "raise the epoch for markers and for what comes next"
    BEGIN = "note the time"
    TAKE = "the partitions take part"
    CLEAR = "no partitions take part"
    FINISH = "go over to the new producer id, if there is one"
    STORE = "write it to the log before anything else happens"
    MARK = "write the markers"
    ANSWER_OK = "no error"
    ANSWER_CONCURRENT = "CONCURRENT_TRANSACTIONS"
    ANSWER_INVALID = "INVALID_TXN_STATE"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_S: Final = State
_E: Final = Event
_F: Final = Effect


def _invalid(state: State) -> Row:
    return Row(state, (_F.ANSWER_INVALID,))


def _concurrent(state: State) -> Row:
    return Row(state, (_F.ANSWER_CONCURRENT,))


_BEGIN: Final = Row(_S.ONGOING, (_F.CLEAR, _F.BEGIN, _F.TAKE, _F.STORE, _F.ANSWER_OK))
_TAKEN_OVER: Final = Row(_S.EMPTY, (_F.NEW_EPOCH, _F.CLEAR, _F.STORE, _F.ANSWER_OK))
_END: Final = (_F.STORE, _F.MARK, _F.ANSWER_OK)
_END_2: Final = (_F.ADVANCE, *_END)
_ABORT_NOTHING: Final = Row(_S.PREPARE_ABORT, (_F.CLEAR, *_END_2))
_FORGOTTEN: Final = Row(_S.DEAD, (_F.STORE,))
_FENCE: Final = Row(_S.PREPARE_EPOCH_FENCE, (_F.FENCE,))

_EMPTY: Final[Mapping[Event, Row]] = {
    _E.INIT: _TAKEN_OVER,
    _E.ADD: _BEGIN,
    _E.COMMIT: _invalid(_S.EMPTY),
    _E.ABORT: _invalid(_S.EMPTY),
    _E.COMMIT_2: _invalid(_S.EMPTY),
    _E.ABORT_2: _ABORT_NOTHING,
    _E.FORGET: _FORGOTTEN,
}

_ONGOING: Final[Mapping[Event, Row]] = {
    _E.INIT: _FENCE,
    _E.ADD: Row(_S.ONGOING, (_F.TAKE, _F.STORE, _F.ANSWER_OK)),
    _E.COMMIT: Row(_S.PREPARE_COMMIT, _END),
    _E.ABORT: Row(_S.PREPARE_ABORT, _END),
    _E.COMMIT_2: Row(_S.PREPARE_COMMIT, _END_2),
    _E.ABORT_2: Row(_S.PREPARE_ABORT, _END_2),
    _E.TIMED_OUT: _FENCE,
}


def _prepared(state: State, complete: State, same: tuple[Event, ...], other: tuple[Event, ...]) -> dict[Event, Row]:
    """The decision is made; whoever wants the same waits for it, whoever wants the other thing comes too late."""
    return {
        _E.INIT: _concurrent(state),
        _E.ADD: _concurrent(state),
        **{event: _concurrent(state) for event in same},
        **{event: _invalid(state) for event in other},
        _E.MARKED: Row(complete, (_F.FINISH, _F.CLEAR, _F.STORE)),
    }


def _complete(state: State, same: tuple[Event, Event], other: tuple[Event, Event]) -> dict[Event, Row]:
    """``same`` and ``other`` are ends that may have been asked for before; the others ask for an end of nothing."""
    return {
        _E.INIT: _TAKEN_OVER,
        _E.ADD: _BEGIN,
        **{event: Row(state, (_F.ANSWER_OK,)) for event in same},
        **{event: _invalid(state) for event in other},
        _E.COMMIT_2: _invalid(state),
        _E.ABORT_2: _ABORT_NOTHING,
        _E.FORGET: _FORGOTTEN,
    }


_COMMITS: Final = (_E.COMMIT, _E.COMMIT_AGAIN)
_ABORTS: Final = (_E.ABORT, _E.ABORT_AGAIN)

TABLE: Final = Table(
    "a transactional id",
    {
        _S.EMPTY: _EMPTY,
        _S.ONGOING: _ONGOING,
        _S.PREPARE_COMMIT: _prepared(
            _S.PREPARE_COMMIT, _S.COMPLETE_COMMIT, (*_COMMITS, _E.COMMIT_2), (*_ABORTS, _E.ABORT_2)
        ),
        _S.PREPARE_ABORT: _prepared(
            _S.PREPARE_ABORT, _S.COMPLETE_ABORT, (*_ABORTS, _E.ABORT_2), (*_COMMITS, _E.COMMIT_2)
        ),
        _S.COMPLETE_COMMIT: _complete(_S.COMPLETE_COMMIT, _COMMITS, _ABORTS),
        _S.COMPLETE_ABORT: _complete(_S.COMPLETE_ABORT, _ABORTS, _COMMITS),
        _S.PREPARE_EPOCH_FENCE: {_E.FENCED: Row(_S.PREPARE_ABORT, (_F.STORE, _F.MARK))},
    },
)
