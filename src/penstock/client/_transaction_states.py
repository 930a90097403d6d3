"""Where a transactional producer stands: a table.

A producer is UNINITIALIZED until its transactional id is being taken over (INITIALIZING), which entering its block
begins, and ``init_transactions`` waits for. READY it may begin; IN_TRANSACTION it may send. COMMITTING and ABORTING
last until the log has said so: whoever asks and gets no answer asks the same thing again. PREPARED everything is
stored, and the transaction waits for its end by this producer or another. ABORTABLE_ERROR something of the transaction
failed, so that it can only be aborted. FATAL_ERROR another producer has the transactional id, or the log refuses it:
this one can only be closed.

Rule 1: records are taken IN_TRANSACTION and in no other state.
Rule 2: what the application does in the wrong state changes nothing; what happens to its batches always counts.
Rule 3: whoever asks for something that leads from INITIALIZING to itself waits until that is over, and asks again.
Source: the words and their order are those of Kafka's Java producer (KIP-98, KIP-360, KIP-939 for PREPARED).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from penstock.errors import UsageError
from penstock.groups.tables import Table

__all__ = ["CALLS", "TABLE", "Event", "State", "after"]


class State(enum.Enum):
    """What this producer is doing about transactions."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready to begin a transaction"
    IN_TRANSACTION = "in a transaction"
    PREPARED = "holding a prepared transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that failed"
    FATAL_ERROR = "out of use"


class Event(enum.Enum):
    """A call of the application, or what came of one."""

    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    PREPARE = "prepare_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    DONE = "the log did what it was asked for"
    INTERRUPTED = "the log could not be asked"
    FAILED = "a batch, or offsets, failed for good"
    FENCED = "the log no longer knows this producer"


_S: Final = State
_E: Final = Event

TABLE: Final = Table(
    "a transactional producer",
    {
        _S.UNINITIALIZED: {_E.INIT: _S.INITIALIZING},
        _S.INITIALIZING: {
            _E.INIT: _S.INITIALIZING,
            _E.BEGIN: _S.INITIALIZING,
            _E.DONE: _S.READY,
            _E.INTERRUPTED: _S.UNINITIALIZED,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.READY: {_E.INIT: _S.READY, _E.BEGIN: _S.IN_TRANSACTION},
        _S.IN_TRANSACTION: {
            _E.PREPARE: _S.PREPARED,
            _E.COMMIT: _S.COMMITTING,
            _E.ABORT: _S.ABORTING,
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.PREPARED: {
            _E.COMMIT: _S.COMMITTING,
            _E.ABORT: _S.ABORTING,
            # Batches are still on their way when it is asked for.
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.COMMITTING: {
            _E.COMMIT: _S.COMMITTING,
            _E.DONE: _S.READY,
            _E.INTERRUPTED: _S.COMMITTING,
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.ABORTING: {
            _E.ABORT: _S.ABORTING,
            _E.DONE: _S.READY,
            _E.INTERRUPTED: _S.ABORTING,
            # What is thrown away fails; that is no news.
            _E.FAILED: _S.ABORTING,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.ABORTABLE_ERROR: {
            _E.ABORT: _S.ABORTING,
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.FATAL_ERROR: {_E.FAILED: _S.FATAL_ERROR, _E.FENCED: _S.FATAL_ERROR},
    },
)

CALLS: Final = frozenset({_E.INIT, _E.BEGIN, _E.PREPARE, _E.COMMIT, _E.ABORT})
"""What the application does; it may do so at a wrong time."""


def after(state: State, event: Event) -> State:
    """The next state. Raises UsageError for a call at a wrong time, UndefinedTransition for what cannot happen."""
    if event in CALLS and (state, event) not in TABLE:
        raise UsageError(f"{event.value} does not fit a producer that is {state.value}", hint=_HINTS.get(state))
    return TABLE[state, event]


_HINTS: Final[Mapping[State, str]] = {
    _S.UNINITIALIZED: "Call init_transactions() first, or enter the producer's block",
    _S.READY: "Call begin_transaction() first",
    _S.PREPARED: "Commit or abort what is prepared first",
    _S.COMMITTING: "Its outcome is not known yet: call commit_transaction() again",
    _S.ABORTING: "Its outcome is not known yet: call abort_transaction() again",
    _S.ABORTABLE_ERROR: "Call abort_transaction(), then begin again",
    _S.FATAL_ERROR: "Close this producer and make a new one",
}
