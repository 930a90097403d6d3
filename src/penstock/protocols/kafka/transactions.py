"""The transaction coordinator's decisions, with clock and ids passed in.

The module has the state table of a transactional id, the id's data and the effect of each row on it, the checks that
turn a request into an event, and the records of ``__transaction_state``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import ProtocolViolation
from penstock.groups.state_machine import Table
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.stored_records import (
    TransactionLogPartitions,
    TransactionLogValue,
    read_transaction_key,
    read_transaction_value,
    write_transaction_key,
    write_transaction_value,
)
from penstock.records.scalar_codec import Entry

__all__ = [
    "ANSWERS",
    "LARGEST_EPOCH",
    "TABLE",
    "Cause",
    "Effect",
    "Event",
    "Row",
    "State",
    "Transaction",
    "apply",
    "asks_again",
    "end_event",
    "entry_of",
    "holder_fault",
    "may_take_over",
    "may_write",
    "read_entry",
    "step",
]


# The states of a transactional id, and the effect of each event on it.
#
# An id is **EMPTY** when a producer has just taken it over. The first partition of a transaction makes it **ONGOING**.
# The end has two steps. First the decision is stored, **PREPARE_COMMIT** or **PREPARE_ABORT**: from then on it will be
# carried out, whichever process dies. Then every partition gets a marker, and when all have one, that is stored too:
# **COMPLETE_COMMIT** or **COMPLETE_ABORT**. From there the next transaction begins. If an open transaction is not ended
# by its own producer (it timed out, or another producer takes the id over), the epoch is raised first so that the
# markers fence the old producer: **PREPARE_EPOCH_FENCE**, which is never stored. **DEAD** is final; the id is
# forgotten.
#
# Two rules of this file. First, a request is checked (producer id, epoch, timeout) before it becomes an event; see the
# functions at the end. Second, a row has the next state and the effects, in order; nothing else changes a state. In the
# second version of the protocol (KIP-890, events ``…_2``) a producer gets a new epoch at each end. So a repeated end
# under the previous epoch is recognised (``…_AGAIN``); in the first version it looks like a new one.
#
# Pairs without a row cannot happen. Sources: KIP-98, KIP-360, KIP-588, KIP-890; state names of Kafka's coordinator.
class State(enum.StrEnum):
    """States by their names on the wire; `_NUMBERS` has their numbers in the log."""

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
    FORGET = "it has not been used for a long time"


class Effect(enum.Enum):
    """What a row does; the ANSWER_ effects answer the request that brought the event."""

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
    """The decision is made: a request for the same end must wait and retry, a request for the other end is too late."""
    return {
        _E.INIT: _concurrent(state),
        _E.ADD: _concurrent(state),
        **{event: _concurrent(state) for event in same},
        **{event: _invalid(state) for event in other},
        _E.MARKED: Row(complete, (_F.FINISH, _F.CLEAR, _F.STORE)),
    }


def _complete(state: State, same: tuple[Event, Event], other: tuple[Event, Event]) -> dict[Event, Row]:
    """``same`` and ``other`` are ends that may be repeated requests; other events ask for the end of no transaction."""
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

# A transactional id with its present transaction, and the change that each effect makes.
#
# Values are replaced, never changed, so that a value which the log refuses is simply dropped.
LARGEST_EPOCH: Final = 32_766
"""The largest epoch of a producer. One more is reserved, to fence the producer when its id is exhausted."""

_NOTHING: Final[frozenset[Partition]] = frozenset()


class Transaction(Struct, frozen=True):
    """Times are ms since 1970 UTC, or -1.

    ``second``: the present or last transaction uses the protocol's second version. ``previous_producer_id`` is the id
    before its epochs were exhausted, ``next_producer_id`` the one after the present end; -1 for none. ``retried_epoch``
    is the epoch before the last INIT, which recognises a repeated INIT; it is not stored.
    """

    transactional_id: str
    producer_id: int
    epoch: int = -1
    timeout_ms: int = 60_000
    state: State = State.EMPTY
    partitions: frozenset[Partition] = _NOTHING
    started_ms: int = -1
    updated_ms: int = -1
    second: bool = False
    previous_producer_id: int = -1
    next_producer_id: int = -1
    retried_epoch: int = -1

    @property
    def decided(self) -> bool:
        """Whether the end is decided and not carried out yet."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def commits(self) -> bool:
        """Whether the decided, or finished, end is a commit."""
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


class Cause(Struct, frozen=True):
    """The data of an event. ``new_id`` returns an unused producer id."""

    now_ms: int
    new_id: Callable[[], int]
    partitions: frozenset[Partition] = _NOTHING
    timeout_ms: int = -1
    second: bool = False


def apply(effect: Effect, transaction: Transaction, cause: Cause) -> Transaction:
    """The transaction after an effect; unchanged by effects that act elsewhere."""
    change = _CHANGES.get(effect)
    return transaction if change is None else change(transaction, cause)


def _new_epoch(it: Transaction, cause: Cause) -> Transaction:
    timeout_ms = it.timeout_ms if cause.timeout_ms < 0 else cause.timeout_ms
    if it.epoch >= LARGEST_EPOCH:
        return replace(
            it,
            producer_id=cause.new_id(),
            epoch=0,
            previous_producer_id=it.producer_id,
            retried_epoch=-1,
            timeout_ms=timeout_ms,
            started_ms=-1,
        )
    return replace(it, epoch=it.epoch + 1, retried_epoch=it.epoch, timeout_ms=timeout_ms, started_ms=-1)


def _fence(it: Transaction, cause: Cause) -> Transaction:
    del cause
    return replace(it, epoch=min(it.epoch + 1, LARGEST_EPOCH + 1), retried_epoch=-1)


def _advance(it: Transaction, cause: Cause) -> Transaction:
    following = cause.new_id() if it.epoch >= LARGEST_EPOCH else -1
    return replace(it, epoch=it.epoch + 1, next_producer_id=following, retried_epoch=-1)


def _finish(it: Transaction, cause: Cause) -> Transaction:
    del cause
    if it.next_producer_id < 0:
        return it
    return replace(
        it, producer_id=it.next_producer_id, epoch=0, previous_producer_id=it.producer_id, next_producer_id=-1
    )


def _begin(it: Transaction, cause: Cause) -> Transaction:
    return replace(it, started_ms=cause.now_ms, second=cause.second, retried_epoch=-1)


def _take(it: Transaction, cause: Cause) -> Transaction:
    return replace(it, partitions=it.partitions | cause.partitions)


def _clear(it: Transaction, cause: Cause) -> Transaction:
    del cause
    # The start time stays known after the end, as in Kafka.
    return replace(it, partitions=_NOTHING)


_CHANGES: Final[Mapping[Effect, Callable[[Transaction, Cause], Transaction]]] = {
    Effect.NEW_EPOCH: _new_epoch,
    Effect.FENCE: _fence,
    Effect.ADVANCE: _advance,
    Effect.FINISH: _finish,
    Effect.BEGIN: _begin,
    Effect.TAKE: _take,
    Effect.CLEAR: _clear,
}

# Checks of requests for a transactional id. Source: Kafka's transaction coordinator; KIP-98, KIP-360, KIP-890. Each
# function returns an error code, or the event for the table.
_OPEN_ENDS = (State.PREPARE_COMMIT, State.PREPARE_ABORT, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

ANSWERS = {
    Effect.ANSWER_OK: ErrorCode.NONE,
    Effect.ANSWER_CONCURRENT: ErrorCode.CONCURRENT_TRANSACTIONS,
    Effect.ANSWER_INVALID: ErrorCode.INVALID_TXN_STATE,
}


def step(transaction: Transaction, event: Event, cause: Cause) -> tuple[Transaction, tuple[Effect, ...]]:
    """The transaction after an event, and the effects of its row. Raises UndefinedTransition."""
    row = TABLE[transaction.state, event]
    for effect in row.effects:
        transaction = apply(effect, transaction, cause)
    return replace(transaction, state=row.next, updated_ms=cause.now_ms), row.effects


def may_take_over(it: Transaction, producer_id: int, epoch: int) -> ErrorCode:
    """InitProducerId: allowed without a producer id; with one, only if it is still the id's last producer."""
    if producer_id < 0:
        return ErrorCode.NONE
    if producer_id == it.producer_id and (epoch == it.epoch or asks_again(it, producer_id, epoch)):
        return ErrorCode.NONE
    exhausted = producer_id == it.previous_producer_id and epoch >= LARGEST_EPOCH and it.epoch == 0
    return ErrorCode.NONE if exhausted else ErrorCode.PRODUCER_FENCED


def asks_again(it: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether this InitProducerId was served already, so its response must have been lost."""
    if it.state is not State.EMPTY:
        return False
    if producer_id == it.producer_id:
        return 0 <= epoch == it.retried_epoch
    return producer_id == it.previous_producer_id >= 0 and epoch >= LARGEST_EPOCH and it.epoch == 0


def holder_fault(it: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """The error code unless that producer holds the transactional id in that epoch."""
    if it is None or producer_id != it.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if epoch == it.epoch else ErrorCode.PRODUCER_FENCED


def end_event(it: Transaction | None, producer_id: int, epoch: int, *, commit: bool, second: bool) -> Event | ErrorCode:
    """EndTxn: its event, or the error code that refuses it."""
    if second and it is not None and it.second and it.state in _OPEN_ENDS and _ended_under(it, producer_id, epoch):
        return Event.COMMIT_AGAIN if commit else Event.ABORT_AGAIN
    fault = holder_fault(it, producer_id, epoch)
    if fault:
        return fault
    if second:
        return Event.COMMIT_2 if commit else Event.ABORT_2
    return Event.COMMIT if commit else Event.ABORT


def _ended_under(it: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether the last end, which raised the epoch, was requested under this epoch."""
    if producer_id == it.producer_id:
        return epoch == it.epoch - 1
    return producer_id == it.previous_producer_id and epoch >= LARGEST_EPOCH and it.epoch == 0


def may_write(it: Transaction | None, producer_id: int, epoch: int, partition: Partition) -> ErrorCode:
    """Whether a batch of the transaction may be stored in ``partition`` now (KIP-890, verification)."""
    fault = holder_fault(it, producer_id, epoch)
    if fault:
        return ErrorCode.INVALID_PRODUCER_EPOCH if fault is ErrorCode.PRODUCER_FENCED else fault
    assert it is not None
    if it.decided:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if it.state is State.ONGOING and partition in it.partitions:
        return ErrorCode.NONE
    return ErrorCode.INVALID_TXN_STATE


# A transactional id as a record of ``__transaction_state``, in Kafka's own format, so that Kafka's tools read it.
_NUMBERS: Final[Mapping[State, int]] = {
    State.EMPTY: 0,
    State.ONGOING: 1,
    State.PREPARE_COMMIT: 2,
    State.PREPARE_ABORT: 3,
    State.COMPLETE_COMMIT: 4,
    State.COMPLETE_ABORT: 5,
    State.DEAD: 6,
    State.PREPARE_EPOCH_FENCE: 7,
}
_STATES: Final = {number: state for state, number in _NUMBERS.items()}
_VERSION_1, _VERSION_2 = 1, 2


def entry_of(transaction: Transaction) -> Entry:
    """The record of ``transaction``; one without a value if it is DEAD."""
    value = None if transaction.state is State.DEAD else write_transaction_value(_value(transaction))
    return write_transaction_key(transaction.transactional_id), value


def read_entry(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """(id, its transaction), with None for a deleted id; None for other keys. Raises ProtocolViolation."""
    transactional_id = read_transaction_key(key)
    if transactional_id is None:
        return None
    return transactional_id, None if value is None else _transaction(transactional_id, value)


def _value(it: Transaction) -> TransactionLogValue:
    topics: dict[str, list[int]] = {}
    for partition in sorted(it.partitions):
        topics.setdefault(partition.topic, []).append(partition.id)
    return TransactionLogValue(
        producer_id=it.producer_id,
        producer_epoch=it.epoch,
        transaction_timeout_ms=it.timeout_ms,
        transaction_status=_NUMBERS[it.state],
        transaction_partitions=None
        if it.state is State.EMPTY
        else [TransactionLogPartitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()],
        transaction_last_update_timestamp_ms=it.updated_ms,
        transaction_start_timestamp_ms=it.started_ms,
        previous_producer_id=it.previous_producer_id,
        next_producer_id=it.next_producer_id,
        client_transaction_version=_VERSION_2 if it.second else _VERSION_1,
    )


def _transaction(transactional_id: str, data: bytes) -> Transaction:
    value = read_transaction_value(data)
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise ProtocolViolation(f"transactional id {transactional_id!r} is in state {value.transaction_status}")
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            Partition(topic.topic, each) for topic in value.transaction_partitions or () for each in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version >= _VERSION_2,
        value.previous_producer_id,
        value.next_producer_id,
    )
