"""The coordinators' stored records: ``__consumer_offsets``, ``__transaction_state``, KIP-848 groups (in our format)."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, TypeVar

from msgspec import Struct

from penstock.interfaces.framing import Buffer
from penstock.interfaces.node import CommittedUntil, Replayed
from penstock.interfaces.wire import Reader, Writer
from penstock.model import Committed, Partition
from penstock.protocols.kafka.wire import codec
from penstock.protocols.kafka.wire.declarations import BYTES, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, Message, array
from penstock.records.scalar_codec import Entry

__all__ = [
    "GroupLogKey",
    "GroupLogValue",
    "GroupOptionsValue",
    "LoggedOption",
    "LoggedPartitions",
    "LoggedProtocol",
    "LoggedTopic",
    "MemberLogValue",
    "OffsetsLog",
    "TransactionLogPartitions",
    "TransactionLogValue",
    "read_log_entry",
    "read_transaction_key",
    "read_transaction_value",
    "write_log_entry",
    "write_transaction_key",
    "write_transaction_value",
]

# Keys and values of the ``__consumer_offsets`` topic: committed offsets and group descriptions.
#
# Keys v0 and v1 are those of offsets; key v2 is that of a group. We read all value versions and write v3 of both kinds,
# which other tools can read. The value of an offset with an expiry time is v1, as on a real broker, because only v1 has
# that field. Any other key version (KIP-848 and later) is an UnknownKey: another program wrote it, and we ignore it.
# Source: Kafka group coordinator, OffsetCommitKey/Value, GroupMetadataKey/Value.

V = TypeVar("V", "OffsetValue", "GroupValue")

OFFSET_VALUE_VERSION = 3
EXPIRING_OFFSET_VALUE_VERSION = 1
NEVER_BY_ITSELF = -1
GROUP_VALUE_VERSION = 3
_OFFSET_KEY, _SIZE, _NUMBER = struct.Struct(">hh"), struct.Struct(">h"), struct.Struct(">i")
_OFFSET_VALUE, _TIME = struct.Struct(">hqih"), struct.Struct(">q")
"""Layouts of the declarations below. Commits are packed with these, not with the codec, because they are far more
frequent than all other records."""


class OffsetKey(Message):
    """Key v0, v1: the group and the partition of an offset."""

    API: ClassVar[Api] = Api(-1, 0, 1, flexible=None)
    group: Annotated[str, STR] = ""
    topic: Annotated[str, STR] = ""
    partition: Annotated[int, I32] = 0


class GroupKey(Message):
    """Key v2: a classic group."""

    API: ClassVar[Api] = Api(-1, 2, 2, flexible=None)
    group: Annotated[str, STR] = ""


class UnknownKey(Struct, frozen=True):
    """A key of an unknown version, written by another program."""

    version: int


class OffsetValue(Message):
    """Value v0-v4 of an offset. Times are ms since 1970 UTC, -1 if absent."""

    API: ClassVar[Api] = Api(-1, 0, 4, flexible=4)
    offset: Annotated[int, I64] = 0
    leader_epoch: Annotated[int, I32.since(3).ignorable()] = -1
    metadata: Annotated[str, STR] = ""
    commit_timestamp: Annotated[int, I64] = 0
    expire_timestamp: Annotated[int, I64.between(1, 1).ignorable()] = NEVER_BY_ITSELF
    topic_id: Annotated[bytes, UUID.since(4).tag(0).ignorable()] = NO_UUID


class GroupValueMember(Message):
    """One member of a group at the group's last sync."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3).ignorable()] = None
    client_id: Annotated[str, STR] = ""
    client_host: Annotated[str, STR] = ""
    rebalance_timeout: Annotated[int, I32.since(1).ignorable()] = 0
    session_timeout: Annotated[int, I32] = 0
    subscription: Annotated[Buffer, BYTES] = b""
    assignment: Annotated[Buffer, BYTES] = b""


class GroupValue(Message):
    """Value v0-v4 of a group. ``protocol`` and ``leader`` are null while the group has no members."""

    API: ClassVar[Api] = Api(-1, 0, 4, flexible=4)
    protocol_type: Annotated[str, STR] = ""
    generation: Annotated[int, I32] = 0
    protocol: Annotated[str | None, STR.nullable()] = None
    leader: Annotated[str | None, STR.nullable()] = None
    current_state_timestamp: Annotated[int, I64.since(2).ignorable()] = -1
    members: Annotated[Sequence[GroupValueMember], array(GroupValueMember)] = ()


def write_offset_key(key: OffsetKey) -> bytes:
    """Encode key v1. Raises UsageError."""
    try:
        group, topic = key.group.encode(), key.topic.encode()
        return b"".join(
            (_OFFSET_KEY.pack(1, len(group)), group, _SIZE.pack(len(topic)), topic, _NUMBER.pack(key.partition))
        )
    except (struct.error, ValueError):
        return _write(key, 1)  # the codec's error names the field


def write_group_key(group: str) -> bytes:
    """Encode key v2."""
    return _write(GroupKey(group=group), 2)


def write_offset_value(value: OffsetValue) -> bytes:
    """Encode value v3, or v1 if the offset has an expiry time. Raises UsageError."""
    if value.expire_timestamp != NEVER_BY_ITSELF:
        return _write(value, EXPIRING_OFFSET_VALUE_VERSION)
    try:
        metadata = value.metadata.encode()
        head = _OFFSET_VALUE.pack(OFFSET_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata))
        return b"".join((head, metadata, _TIME.pack(value.commit_timestamp)))
    except (struct.error, ValueError):
        return _write(value, OFFSET_VALUE_VERSION)  # the codec's error names the field


def write_group_value(value: GroupValue) -> bytes:
    """Encode value v3."""
    return _write(value, GROUP_VALUE_VERSION)


def read_key(data: Buffer) -> OffsetKey | GroupKey | UnknownKey:
    """Decode a key. Raises ProtocolViolation."""
    reader = Reader(data)
    version = reader.i16()
    if version in (0, 1):
        return codec.decode(OffsetKey, version, reader)
    if version == 2:
        return codec.decode(GroupKey, version, reader)
    return UnknownKey(version)


def read_offset_value(data: Buffer) -> OffsetValue:
    """Decode an offset's value. Raises ProtocolViolation, also for a version above 4."""
    return _read(OffsetValue, data)


def read_group_value(data: Buffer) -> GroupValue:
    """Decode a group's value. Raises ProtocolViolation, also for a version above 4."""
    return _read(GroupValue, data)


def _read(kind: type[V], data: Buffer) -> V:
    reader = Reader(data)
    version = reader.i16()
    if not 0 <= version <= 4:
        reader.fail(f"value version {version}")
    return codec.decode(kind, version, reader)


def _write(message: object, version: int) -> bytes:
    writer = Writer()
    writer.i16(version)
    codec.write(message, version, writer)
    return b"".join(writer.parts())


# Keys and values of the ``__transaction_state`` topic.
#
# We write value v1, as brokers since 4.0 do, and read both versions.
# Source: Kafka transaction coordinator, TransactionLogKey v0, TransactionLogValue v0 and v1 (4.3).

_KEY_VERSION = 0
_VALUE_VERSION = 1


class TransactionLogKey(Message):
    """Key v0."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=None)
    transactional_id: Annotated[str, STR] = ""


class TransactionLogPartitions(Message):
    """One entry of ``transaction_partitions``."""

    topic: Annotated[str, STR] = ""
    partition_ids: Annotated[Sequence[int], array(I32)] = ()


class TransactionLogValue(Message):
    """Value v0, v1. Times are ms since 1970 UTC, -1 if absent. ``transaction_partitions`` is null in state Empty."""

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
    """Encode key v0."""
    return _write(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def write_transaction_value(value: TransactionLogValue) -> bytes:
    """Encode value v1."""
    return _write(value, _VALUE_VERSION)


def read_transaction_key(data: Buffer) -> str | None:
    """Decode a key to the transactional id; None for a key of an unknown version. Raises ProtocolViolation."""
    reader = Reader(data)
    if reader.i16() != _KEY_VERSION:
        return None
    return codec.decode(TransactionLogKey, _KEY_VERSION, reader).transactional_id


def read_transaction_value(data: Buffer) -> TransactionLogValue:
    """Decode a value. Raises ProtocolViolation, also for a version above 1."""
    reader = Reader(data)
    version = reader.i16()
    if not 0 <= version <= _VALUE_VERSION:
        reader.fail(f"value version {version}")
    return codec.decode(TransactionLogValue, version, reader)


# Stored state of KIP-848 groups, in a format of our own: one entry per group and one per member.
#
# Kafka stores the same state in seven kinds of records. One entry per member is enough to write only the changes.
# Keys and values begin with their version.

_VERSION = 0


class GroupLogKey(Message):
    """The key of a member's entry, or of the group's entry if it has no member."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    group: Annotated[str, STR] = ""
    member: Annotated[str | None, STR.nullable()] = None


class LoggedTopic(Message):
    """A topic that members subscribe to."""

    name: Annotated[str, STR] = ""
    topic_id: Annotated[bytes, UUID] = NO_UUID
    partitions: Annotated[int, I32] = 0


class GroupLogValue(Message):
    """The value of a group's entry."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    epoch: Annotated[int, I32] = 0
    target_epoch: Annotated[int, I32] = 0
    assignor: Annotated[str, STR] = ""
    topics: Annotated[Sequence[LoggedTopic], array(LoggedTopic)] = ()


class LoggedPartitions(Message):
    """Partitions of one topic, all assigned in the same member epoch. In a target assignment the epoch is ignored."""

    topic_id: Annotated[bytes, UUID] = NO_UUID
    epoch: Annotated[int, I32] = 0
    partitions: Annotated[Sequence[int], array(I32)] = ()


class LoggedProtocol(Message):
    """An assignment protocol that a member of the classic protocol supports."""

    name: Annotated[str, STR] = ""
    metadata: Annotated[Buffer, BYTES] = b""


class MemberLogValue(Message):
    """The value of a member's entry. A member of the classic protocol has tagged fields, as in Kafka's own records."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    instance_id: Annotated[str | None, STR.nullable()] = None
    rack: Annotated[str | None, STR.nullable()] = None
    client_id: Annotated[str, STR] = ""
    client_host: Annotated[str, STR] = ""
    rebalance_timeout_ms: Annotated[int, I32] = -1
    names: Annotated[Sequence[str], array(STR)] = ()
    pattern: Annotated[str, STR] = ""
    assignor: Annotated[str | None, STR.nullable()] = None
    epoch: Annotated[int, I32] = 0
    previous_epoch: Annotated[int, I32] = 0
    state: Annotated[int, I8] = 0
    assigned: Annotated[Sequence[LoggedPartitions], array(LoggedPartitions)] = ()
    pending: Annotated[Sequence[LoggedPartitions], array(LoggedPartitions)] = ()
    target: Annotated[Sequence[LoggedPartitions], array(LoggedPartitions)] = ()
    older_session_timeout_ms: Annotated[int, I32.tag(0).ignorable()] = -1
    older_protocols: Annotated[Sequence[LoggedProtocol], array(LoggedProtocol).tag(1).ignorable()] = ()


class LoggedOption(Message):
    """One group config that was set."""

    name: Annotated[str, STR] = ""
    value: Annotated[str, STR] = ""


class GroupOptionsValue(Message):
    """The configs that were set for a group of either protocol."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    options: Annotated[Sequence[LoggedOption], array(LoggedOption)] = ()


T = TypeVar("T", GroupLogKey, GroupLogValue, MemberLogValue, GroupOptionsValue)


def write_log_entry(message: GroupLogKey | GroupLogValue | MemberLogValue | GroupOptionsValue) -> bytes:
    """Encode a key or a value, which begins with its version."""
    writer = Writer()
    writer.i16(_VERSION)
    codec.write(message, _VERSION, writer)
    return b"".join(writer.parts())


def read_log_entry(kind: type[T], data: Buffer) -> T:
    """Decode a key or a value. Raises ProtocolViolation, also for an unknown version."""
    reader = Reader(data)
    version = reader.i16()
    if version != _VERSION:
        reader.fail(f"version {version} of a group's entry")
    return codec.decode(kind, _VERSION, reader)


# Committed offsets and groups as entries of ``__consumer_offsets``, in Kafka's format, which Kafka's tools can read.
# Source: Kafka group coordinator (OffsetCommitKey/Value, GroupMetadataKey/Value).
_KEPT: Final = 8_192
"""The number of groups whose hash is cached."""


class OffsetsLog:
    """Converts between a node's committed offsets and groups and their stored entries. It has no state."""

    topic: Final = "__consumer_offsets"
    config: Final[Mapping[str, str]] = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(4 << 20),
        "delete.retention.ms": str(3_600_000),
    }
    """Segments are smaller than Kafka's 100 MiB, because only closed segments are compacted and all are read at start.
    Tombstones and transaction markers are kept for an hour, not for a day as in Kafka."""

    def partition_of(self, group: str, partitions: int) -> int:
        """The partition of a group's records: the absolute value of Java's hash of its name, modulo ``partitions``."""
        return _hashed(group) % partitions

    def offset_entry(self, group: str, partition: Partition, committed: Committed | None) -> Entry:
        """The entry of a commit. ``committed`` None deletes the offset."""
        key = write_offset_key(OffsetKey(group=group, topic=partition.topic, partition=partition.id))
        if committed is None:
            return key, None
        value = OffsetValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.timestamp_ms,
            expire_timestamp=committed.expires_ms if isinstance(committed, CommittedUntil) else NEVER_BY_ITSELF,
        )
        return key, write_offset_value(value)

    def group_entry(self, group: str, record: bytes | None) -> Entry:
        """The entry of a group. ``record`` None deletes the group."""
        return write_group_key(group), record

    def read(self, key: bytes, value: bytes | None) -> Replayed | None:
        """Decode an entry; None for a key of a later version. Raises ProtocolViolation."""
        about = read_key(key)
        if isinstance(about, GroupKey):
            return Replayed(about.group, None, None, value)
        if not isinstance(about, OffsetKey):
            return None
        committed = None if value is None else _committed(read_offset_value(value))
        return Replayed(about.group, Partition(about.topic, about.partition), committed, None)


def _committed(found: OffsetValue) -> Committed:
    if found.expire_timestamp == NEVER_BY_ITSELF:
        return Committed(found.offset, found.metadata, found.leader_epoch, found.commit_timestamp)
    until = found.expire_timestamp
    return CommittedUntil(found.offset, found.metadata, found.leader_epoch, found.commit_timestamp, expires_ms=until)


@functools.lru_cache(_KEPT)
def _hashed(group: str) -> int:
    hashed = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed)
