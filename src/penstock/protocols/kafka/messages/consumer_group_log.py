"""What a node keeps of groups of the newer protocol: an entry a group, an entry a member. The format is our own.

Kafka keeps the same in seven kinds of records beside committed offsets; an entry a member is enough to write only what
has changed. Keys and values begin with their version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages import codec
from penstock.protocols.kafka.messages.declare import BYTES, I8, I32, NO_UUID, STR, UUID, Api, array
from penstock.seams.framing import Buffer
from penstock.wire import Reader, Writer

__all__ = [
    "GroupLogKey",
    "GroupLogValue",
    "GroupOptionsValue",
    "LoggedOption",
    "LoggedPartitions",
    "LoggedProtocol",
    "LoggedTopic",
    "MemberLogValue",
    "read_log_entry",
    "write_log_entry",
]

_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLogKey:
    """Of a member, or without one, of the group."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    group: Annotated[str, STR] = ""
    member: Annotated[str | None, STR.nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTopic:
    """A topic that members want."""

    name: Annotated[str, STR] = ""
    topic_id: Annotated[bytes, UUID] = NO_UUID
    partitions: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLogValue:
    """A group."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    epoch: Annotated[int, I32] = 0
    target_epoch: Annotated[int, I32] = 0
    assignor: Annotated[str, STR] = ""
    topics: Annotated[Sequence[LoggedTopic], array(LoggedTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPartitions:
    """Partitions of one topic, all since the same member epoch; the epoch of a target's does not count."""

    topic_id: Annotated[bytes, UUID] = NO_UUID
    epoch: Annotated[int, I32] = 0
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedProtocol:
    """What a member of the older protocol can follow."""

    name: Annotated[str, STR] = ""
    metadata: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLogValue:
    """A member; with tagged fields, as Kafka's own records have them, if it speaks the older protocol."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedOption:
    """An option that was set."""

    name: Annotated[str, STR] = ""
    value: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptionsValue:
    """What was set for a group, of either protocol."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=0)
    options: Annotated[Sequence[LoggedOption], array(LoggedOption)] = ()


T = TypeVar("T", GroupLogKey, GroupLogValue, MemberLogValue, GroupOptionsValue)


def write_log_entry(message: GroupLogKey | GroupLogValue | MemberLogValue | GroupOptionsValue) -> bytes:
    """A key or a value."""
    writer = Writer()
    writer.i16(_VERSION)
    codec.write(message, _VERSION, writer)
    return b"".join(writer.parts())


def read_log_entry(kind: type[T], data: Buffer) -> T:
    """Raises ProtocolViolation, also for a version that is not known."""
    reader = Reader(data)
    version = reader.i16()
    if version != _VERSION:
        reader.fail(f"version {version} of a group's entry")
    return codec.decode(kind, _VERSION, reader)
