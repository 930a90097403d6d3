"""A transactional id as a record of ``__transaction_state``, in Kafka's own format, so that Kafka's tools read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.columnar.entries import Entry
from penstock.errors import ProtocolViolation
from penstock.model import Partition
from penstock.protocols.kafka.messages.transaction_log import (
    TransactionLogPartitions,
    TransactionLogValue,
    read_transaction_key,
    read_transaction_value,
    write_transaction_key,
    write_transaction_value,
)
from penstock.protocols.kafka.transactions.states import State
from penstock.protocols.kafka.transactions.transaction import Transaction

__all__ = ["entry_of", "read_entry"]


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
    """An id, and what is known of it; None takes it away. Nothing for other keys. Raises ProtocolViolation."""
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
