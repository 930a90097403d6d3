"""Records of the ``__consumer_offsets`` topic: committed offsets and group descriptions, keys and values.

Source: Kafka group coordinator, OffsetCommitKey/Value, GroupMetadataKey/Value. Key v0 and v1: an offset; key v2: a
group. We write offset values v3 and group values v3, which other tools read, and read all versions that exist. Of an
offset that says when it expires the value is v1, as a real broker's, for no other version can say it.
Other key versions (KIP-848 and later) are UnknownKey: somebody else's records, to be left alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages import codec
from penstock.protocols.kafka.messages.declare import BYTES, I32, I64, NO_UUID, STR, UUID, Api, array
from penstock.seams.framing import Buffer
from penstock.wire import Reader, Writer

V = TypeVar("V", "OffsetValue", "GroupValue")

OFFSET_VALUE_VERSION = 3
EXPIRING_OFFSET_VALUE_VERSION = 1
NEVER_BY_ITSELF = -1
GROUP_VALUE_VERSION = 3
_OFFSET_KEY, _SIZE, _NUMBER = struct.Struct(">hh"), struct.Struct(">h"), struct.Struct(">i")
_OFFSET_VALUE, _TIME = struct.Struct(">hqih"), struct.Struct(">q")
"""What a commit writes is packed here, as the declarations below have it: there are more of them than of all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetKey:
    """Key v0, v1: whose offset of which partition."""

    API: ClassVar[Api] = Api(-1, 0, 1, flexible=None)
    group: Annotated[str, STR] = ""
    topic: Annotated[str, STR] = ""
    partition: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """Key v2: a classic group."""

    API: ClassVar[Api] = Api(-1, 2, 2, flexible=None)
    group: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key of a version that is not ours to read."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """Value v0-v4 of an offset; times are ms since 1970 UTC, -1 where absent."""

    API: ClassVar[Api] = Api(-1, 0, 4, flexible=4)
    offset: Annotated[int, I64] = 0
    leader_epoch: Annotated[int, I32.since(3).ignorable()] = -1
    metadata: Annotated[str, STR] = ""
    commit_timestamp: Annotated[int, I64] = 0
    expire_timestamp: Annotated[int, I64.between(1, 1).ignorable()] = NEVER_BY_ITSELF
    topic_id: Annotated[bytes, UUID.since(4).tag(0).ignorable()] = NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValueMember:
    """One member of a group as it was at its last sync."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3).ignorable()] = None
    client_id: Annotated[str, STR] = ""
    client_host: Annotated[str, STR] = ""
    rebalance_timeout: Annotated[int, I32.since(1).ignorable()] = 0
    session_timeout: Annotated[int, I32] = 0
    subscription: Annotated[Buffer, BYTES] = b""
    assignment: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue:
    """Value v0-v4 of a group; ``protocol`` and ``leader`` are null while it has no members."""

    API: ClassVar[Api] = Api(-1, 0, 4, flexible=4)
    protocol_type: Annotated[str, STR] = ""
    generation: Annotated[int, I32] = 0
    protocol: Annotated[str | None, STR.nullable()] = None
    leader: Annotated[str | None, STR.nullable()] = None
    current_state_timestamp: Annotated[int, I64.since(2).ignorable()] = -1
    members: Annotated[Sequence[GroupValueMember], array(GroupValueMember)] = ()


def write_offset_key(key: OffsetKey) -> bytes:
    """Key v1. Raises UsageError."""
    try:
        group, topic = key.group.encode(), key.topic.encode()
        return b"".join(
            (_OFFSET_KEY.pack(1, len(group)), group, _SIZE.pack(len(topic)), topic, _NUMBER.pack(key.partition))
        )
    except (struct.error, ValueError):
        return _write(key, 1)  # says what is wrong


def write_group_key(group: str) -> bytes:
    """Key v2."""
    return _write(GroupKey(group=group), 2)


def write_offset_value(value: OffsetValue) -> bytes:
    """Value v3; v1 where it says when it expires. Raises UsageError."""
    if value.expire_timestamp != NEVER_BY_ITSELF:
        return _write(value, EXPIRING_OFFSET_VALUE_VERSION)
    try:
        metadata = value.metadata.encode()
        head = _OFFSET_VALUE.pack(OFFSET_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata))
        return b"".join((head, metadata, _TIME.pack(value.commit_timestamp)))
    except (struct.error, ValueError):
        return _write(value, OFFSET_VALUE_VERSION)  # says what is wrong


def write_group_value(value: GroupValue) -> bytes:
    """Value v3."""
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
