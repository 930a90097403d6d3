"""A transactional id and its present transaction: data, and what each effect of the table does to it.

Values are never changed but replaced, so that one which the log refuses is simply not taken over.
What must not live here: which effect when (`states`), who may ask for what (`decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from penstock._dataclasses import dataclass
from penstock.model import Partition
from penstock.protocols.kafka.transactions.states import Effect, State

__all__ = ["LARGEST_EPOCH", "Cause", "Transaction", "apply"]

LARGEST_EPOCH: Final = 32_766
"""Of a producer. One more is kept back, to fence it when its id is exhausted."""

_NOTHING: Final[frozenset[Partition]] = frozenset()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Times are ms since 1970 UTC, -1 where there is none.

    ``second``: its present or last transaction is one of the protocol's second version. ``previous_producer_id`` had
    the id before its epochs were exhausted, ``next_producer_id`` will have it after the present end, -1 for none.
    ``retried_epoch`` is the epoch that INIT has just raised, known for asking again; not stored.
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
        """The end is decided and not carried out yet."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def commits(self) -> bool:
        """What is decided, or done."""
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


@dataclass(frozen=True, slots=True)
class Cause:
    """What an event brings with it. ``new_id`` gives a producer id that nobody has."""

    now_ms: int
    new_id: Callable[[], int]
    partitions: frozenset[Partition] = _NOTHING
    timeout_ms: int = -1
    second: bool = False


def apply(effect: Effect, transaction: Transaction, cause: Cause) -> Transaction:
    """The transaction after an effect; as it was after those that do something elsewhere."""
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
    # When it began stays known after its end, as in Kafka.
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
