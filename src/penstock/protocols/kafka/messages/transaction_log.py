"""Records of the ``__transaction_state`` topic: keys and values.

Source: Kafka transaction coordinator, TransactionLogKey v0, TransactionLogValue v0 and v1 (4.3). We write value v1, as
brokers since 4.0 do, and read both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages import codec
from penstock.protocols.kafka.messages.declare import I8, I16, I32, I64, STR, Api, array
from penstock.seams.framing import Buffer
from penstock.wire import Reader, Writer

__all__ = [
    "TransactionLogPartitions",
    "TransactionLogValue",
    "read_transaction_key",
    "read_transaction_value",
    "write_transaction_key",
    "write_transaction_value",
]

_KEY_VERSION = 0
_VALUE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogKey:
    """Key v0."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=None)
    transactional_id: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogPartitions:
    """One entry of ``transaction_partitions``."""

    topic: Annotated[str, STR] = ""
    partition_ids: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    """Value v0, v1; times are ms since 1970 UTC, -1 where absent. ``transaction_partitions`` is null while Empty."""

    API: ClassVar[Api] = Api(-1, 0, 1, flexible=1)
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    transaction_timeout_ms: Annotated[int, I32] = 0
    transaction_status: Annotated[int, I8] = 0
    transaction_partitions: Annotated[
        Sequence[TransactionLogPartitions] | None, array(TransactionLogPartitions).nullable()
    ] = ()
    transaction_last_update_timestamp_ms: Annotated[int, I64] = 0
    transaction_start_timestamp_ms: Annotated[int, I64] = 0
    previous_producer_id: Annotated[int, I64.since(1).tag(0).ignorable()] = -1
    next_producer_id: Annotated[int, I64.since(1).tag(1).ignorable()] = -1
    client_transaction_version: Annotated[int, I16.since(1).tag(2).ignorable()] = 0
    next_producer_epoch: Annotated[int, I16.since(1).tag(3).ignorable()] = -1


def write_transaction_key(transactional_id: str) -> bytes:
    """Key v0."""
    return _write(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def write_transaction_value(value: TransactionLogValue) -> bytes:
    """Value v1."""
    return _write(value, _VALUE_VERSION)


def read_transaction_key(data: Buffer) -> str | None:
    """The transactional id; None for a key of a version that is not ours to read. Raises ProtocolViolation."""
    reader = Reader(data)
    if reader.i16() != _KEY_VERSION:
        return None
    return codec.decode(TransactionLogKey, _KEY_VERSION, reader).transactional_id


def read_transaction_value(data: Buffer) -> TransactionLogValue:
    """Raises ProtocolViolation, also for a version above 1."""
    reader = Reader(data)
    version = reader.i16()
    if not 0 <= version <= _VALUE_VERSION:
        reader.fail(f"value version {version}")
    return codec.decode(TransactionLogValue, version, reader)


def _write(message: object, version: int) -> bytes:
    writer = Writer()
    writer.i16(version)
    codec.write(message, version, writer)
    return b"".join(writer.parts())
