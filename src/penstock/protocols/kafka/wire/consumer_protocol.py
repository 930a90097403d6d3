"""The consumer protocol: subscriptions and assignments, which JoinGroup and SyncGroup carry as opaque bytes.

No version is flexible. New versions only append fields, so a reader decodes a newer version as its own highest one.
Source: Kafka clients, ConsumerProtocolSubscription and ConsumerProtocolAssignment v0-v3 (KIP-429, KIP-792, KIP-881).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.interfaces.framing import Buffer
from penstock.interfaces.wire import Reader, Writer
from penstock.protocols.kafka.wire import codec
from penstock.protocols.kafka.wire.declarations import BYTES, I32, STR, Api, Message, array

HIGHEST = 3


class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class Subscription(Message):
    """A member's subscription: sorted topics; owned partitions since v1, their generation since v2, rack since v3."""

    API: ClassVar[Api] = Api(-1, 0, HIGHEST, flexible=None)
    topics: Annotated[Sequence[str], array(STR)] = ()
    user_data: Annotated[Buffer | None, BYTES.nullable()] = None
    owned_partitions: Annotated[Sequence[TopicPartitions], array(TopicPartitions).since(1).ignorable()] = ()
    generation_id: Annotated[int, I32.since(2).ignorable()] = -1
    rack_id: Annotated[str | None, STR.nullable().since(3).ignorable()] = None


class MemberAssignment(Message):
    """The partitions assigned to a member."""

    API: ClassVar[Api] = Api(-1, 0, HIGHEST, flexible=None)
    assigned_partitions: Annotated[Sequence[TopicPartitions], array(TopicPartitions)] = ()
    user_data: Annotated[Buffer | None, BYTES.nullable()] = None


def write_subscription(subscription: Subscription, version: int = HIGHEST) -> bytes:
    """Encode a subscription as the metadata of a JoinGroup protocol."""
    return _write(subscription, version)


def write_assignment(assignment: MemberAssignment, version: int = HIGHEST) -> bytes:
    """Encode an assignment for SyncGroup."""
    return _write(assignment, version)


def read_subscription(data: Buffer) -> Subscription:
    """Decode a member's metadata of any version. Raises ProtocolViolation."""
    reader, version = _versioned(data)
    return codec.decode_prefix(Subscription, version, reader)


def read_assignment(data: Buffer) -> MemberAssignment:
    """Decode an assignment of any version. Raises ProtocolViolation, also for empty bytes."""
    reader, version = _versioned(data)
    return codec.decode_prefix(MemberAssignment, version, reader)


def _versioned(data: Buffer) -> tuple[Reader, int]:
    reader = Reader(data)
    version = reader.i16()
    if version < 0:
        reader.fail(f"version {version}")
    return reader, min(version, HIGHEST)


def _write(message: Subscription | MemberAssignment, version: int) -> bytes:
    writer = Writer()
    writer.i16(version)
    codec.write(message, version, writer)
    return b"".join(writer.parts())
