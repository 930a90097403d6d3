"""Requests for a transactional id, checked: who asks, under which epoch; what is left is an event of the table.

What must not live here: the log, waiting, wire messages. Source: Kafka's transaction coordinator; KIP-98, KIP-360,
KIP-890. Each function answers with an error code, or with the event that happens.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.transactions.states import TABLE, Effect, Event, State
from penstock.protocols.kafka.transactions.transaction import LARGEST_EPOCH, Cause, Transaction, apply

__all__ = ["ANSWERS", "asks_again", "end_event", "holder_fault", "may_take_over", "may_write", "step"]

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
    """InitProducerId: by anybody who does not say who he is; by a holder of the id only if he is still the last one."""
    if producer_id < 0:
        return ErrorCode.NONE
    if producer_id == it.producer_id and (epoch == it.epoch or asks_again(it, producer_id, epoch)):
        return ErrorCode.NONE
    exhausted = producer_id == it.previous_producer_id and epoch >= LARGEST_EPOCH and it.epoch == 0
    return ErrorCode.NONE if exhausted else ErrorCode.PRODUCER_FENCED


def asks_again(it: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether such an InitProducerId was served already, and its answer must have been lost."""
    if it.state is not State.EMPTY:
        return False
    if producer_id == it.producer_id:
        return 0 <= epoch == it.retried_epoch
    return producer_id == it.previous_producer_id >= 0 and epoch >= LARGEST_EPOCH and it.epoch == 0


def holder_fault(it: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """Whether the transactional id is that producer's in that epoch."""
    if it is None or producer_id != it.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if epoch == it.epoch else ErrorCode.PRODUCER_FENCED


def end_event(it: Transaction | None, producer_id: int, epoch: int, *, commit: bool, second: bool) -> Event | ErrorCode:
    """EndTxn: which event it is, or why it is none."""
    if second and it is not None and it.second and it.state in _OPEN_ENDS and _ended_under(it, producer_id, epoch):
        return Event.COMMIT_AGAIN if commit else Event.ABORT_AGAIN
    fault = holder_fault(it, producer_id, epoch)
    if fault:
        return fault
    if second:
        return Event.COMMIT_2 if commit else Event.ABORT_2
    return Event.COMMIT if commit else Event.ABORT


def _ended_under(it: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether the last end was asked for under this epoch, which was raised by it."""
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
