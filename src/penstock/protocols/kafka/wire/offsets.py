"""Committed offsets, and who keeps them: FindCoordinator, OffsetCommit, OffsetFetch; a commit by its layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from msgspec.structs import replace

from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffer
from penstock.model import Committed, Partition
from penstock.protocols.kafka.wire.declarations import BOOL, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, Message, array
from penstock.protocols.kafka.wire.framing import request, response

__all__ = ["FIRST_VERSION", "MARKED", "CommitForm"]


# Offsets that a group has committed, and who keeps them: FindCoordinator, OffsetCommit, OffsetFetch.
#
# Wire names in snake case. No behaviour here: ``codec`` reads and writes. Source: Apache Kafka protocol guide, message
# schemas of 4.3.
class FindCoordinatorRequest(Message):
    """FindCoordinator request, versions 0-6."""

    API: ClassVar[Api] = Api(10, 0, 6, flexible=3)
    key: Annotated[str, STR.between(0, 3)] = ""
    key_type: Annotated[int, I8.since(1)] = 0
    coordinator_keys: Annotated[Sequence[str], array(STR).since(4)] = ()


class FindCoordinatorResponseCoordinator(Message):
    """One entry of ``coordinators``."""

    key: Annotated[str, STR] = ""
    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


class FindCoordinatorResponse(Message):
    """FindCoordinator response, versions 0-6."""

    API: ClassVar[Api] = Api(10, 0, 6, flexible=3)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16.between(0, 3)] = 0
    error_message: Annotated[str | None, STR.nullable().between(1, 3).ignorable()] = ""
    node_id: Annotated[int, I32.between(0, 3)] = 0
    host: Annotated[str, STR.between(0, 3)] = ""
    port: Annotated[int, I32.between(0, 3)] = 0
    coordinators: Annotated[
        Sequence[FindCoordinatorResponseCoordinator], array(FindCoordinatorResponseCoordinator).since(4)
    ] = ()


class OffsetCommitRequestPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    committed_offset: Annotated[int, I64] = 0
    committed_leader_epoch: Annotated[int, I32.since(6).ignorable()] = -1
    commit_timestamp: Annotated[int, I64.between(1, 1)] = -1
    committed_metadata: Annotated[str | None, STR.nullable()] = ""


class OffsetCommitRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 9).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[OffsetCommitRequestPartition], array(OffsetCommitRequestPartition)] = ()


class OffsetCommitRequest(Message):
    """OffsetCommit request, versions 0-10."""

    API: ClassVar[Api] = Api(8, 0, 10, flexible=8)
    group_id: Annotated[str, STR] = ""
    generation_id_or_member_epoch: Annotated[int, I32.since(1).ignorable()] = -1
    member_id: Annotated[str, STR.since(1).ignorable()] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(7)] = None
    retention_time_ms: Annotated[int, I64.between(2, 4).ignorable()] = -1
    topics: Annotated[Sequence[OffsetCommitRequestTopic], array(OffsetCommitRequestTopic)] = ()


class OffsetCommitResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


class OffsetCommitResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 9).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[OffsetCommitResponsePartition], array(OffsetCommitResponsePartition)] = ()


class OffsetCommitResponse(Message):
    """OffsetCommit response, versions 0-10."""

    API: ClassVar[Api] = Api(8, 0, 10, flexible=8)
    throttle_time_ms: Annotated[int, I32.since(3).ignorable()] = 0
    topics: Annotated[Sequence[OffsetCommitResponseTopic], array(OffsetCommitResponseTopic)] = ()


class OffsetFetchRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


class OffsetFetchRequestGroupTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(8, 9).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


class OffsetFetchRequestGroup(Message):
    """One entry of ``groups``."""

    group_id: Annotated[str, STR] = ""
    member_id: Annotated[str | None, STR.nullable().since(9).ignorable()] = None
    member_epoch: Annotated[int, I32.since(9).ignorable()] = -1
    topics: Annotated[
        Sequence[OffsetFetchRequestGroupTopic] | None, array(OffsetFetchRequestGroupTopic).nullable()
    ] = ()


class OffsetFetchRequest(Message):
    """OffsetFetch request, versions 0-10."""

    API: ClassVar[Api] = Api(9, 0, 10, flexible=6)
    group_id: Annotated[str, STR.between(0, 7)] = ""
    topics: Annotated[
        Sequence[OffsetFetchRequestTopic] | None, array(OffsetFetchRequestTopic).nullable(2, 7).between(0, 7)
    ] = ()
    groups: Annotated[Sequence[OffsetFetchRequestGroup], array(OffsetFetchRequestGroup).since(8)] = ()
    require_stable: Annotated[bool, BOOL.since(7)] = False


class OffsetFetchResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    committed_offset: Annotated[int, I64] = 0
    committed_leader_epoch: Annotated[int, I32.between(5, 7).ignorable()] = -1
    metadata: Annotated[str | None, STR.nullable()] = ""
    error_code: Annotated[int, I16] = 0


class OffsetFetchResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetFetchResponsePartition], array(OffsetFetchResponsePartition)] = ()


class OffsetFetchResponseGroupTopicPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    committed_offset: Annotated[int, I64] = 0
    committed_leader_epoch: Annotated[int, I32] = -1
    metadata: Annotated[str | None, STR.nullable()] = ""
    error_code: Annotated[int, I16] = 0


class OffsetFetchResponseGroupTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(8, 9).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    partitions: Annotated[
        Sequence[OffsetFetchResponseGroupTopicPartition], array(OffsetFetchResponseGroupTopicPartition)
    ] = ()


class OffsetFetchResponseGroup(Message):
    """One entry of ``groups``."""

    group_id: Annotated[str, STR] = ""
    topics: Annotated[Sequence[OffsetFetchResponseGroupTopic], array(OffsetFetchResponseGroupTopic)] = ()
    error_code: Annotated[int, I16] = 0


class OffsetFetchResponse(Message):
    """OffsetFetch response, versions 0-10."""

    API: ClassVar[Api] = Api(9, 0, 10, flexible=6)
    throttle_time_ms: Annotated[int, I32.since(3).ignorable()] = 0
    topics: Annotated[Sequence[OffsetFetchResponseTopic], array(OffsetFetchResponseTopic).between(0, 7)] = ()
    error_code: Annotated[int, I16.between(2, 7).ignorable()] = 0
    groups: Annotated[Sequence[OffsetFetchResponseGroup], array(OffsetFetchResponseGroup).since(8)] = ()


# A commit of one partition as a form: all bytes of its request that are always the same, and of its good answer.
#
# Who commits record by record sends the same bytes but for correlation id, offset and epoch. Which those are is found
# by writing a request with the codec, once a partition; an answer that says anything else is for the codec.
FIRST_VERSION: Final = 6
"""From here on the epoch stands behind the offset, and no time."""

_OFFSET_AND_EPOCH: Final = struct.Struct(">qi")
_MARK: Final = b"\xa5" * _OFFSET_AND_EPOCH.size
"""Each of its bytes differs from the byte of `_OTHER` in the same place."""

_OFFSET, _EPOCH = _OFFSET_AND_EPOCH.unpack(_MARK)
MARKED: Final = Committed(_OFFSET, leader_epoch=_EPOCH)
"""The offset to write a request with that a form is made of."""

_OTHER: Final = (0, 0)
"""Another offset and epoch: where two requests differ, these stand."""

_BEFORE: Final = 8
"""Size, API and version; the correlation id follows."""
_CORRELATION: Final = 4


class CommitForm:
    """Made of a request for one partition that commits `MARKED`; ``version`` is `FIRST_VERSION` at least."""

    __slots__ = ("_after", "_before", "_good", "_rest")

    def __init__(self, marked: OffsetCommitRequest, partition: Partition, version: int, client_id: str | None) -> None:
        whole = b"".join(request(marked, version, client_id)(0))
        # Not searched for: what stands next to it (a partition's number, a length, a topic's id) may have these bytes.
        at = _first_difference(whole, b"".join(request(_with(marked, *_OTHER), version, client_id)(0)))
        self._before = whole[:_BEFORE]
        self._rest = whole[_BEFORE + _CORRELATION : at]
        self._after = whole[at + len(_MARK) :]
        part = OffsetCommitResponsePartition(partition_index=partition.id)
        topic = OffsetCommitResponseTopic(name=partition.topic, topic_id=marked.topics[0].topic_id, partitions=[part])
        pieces = response(OffsetCommitResponse(topics=[topic]), version, 0)
        answer = b"".join(piece for piece in pieces if isinstance(piece, Buffer))
        self._good = answer[_BEFORE:]

    def fill(self, offset: int, epoch: int) -> Outgoing:
        """The request that commits this."""
        rest = b"%b%b%b" % (self._rest, _OFFSET_AND_EPOCH.pack(offset, epoch), self._after)
        return lambda correlation: (b"%b%b%b" % (self._before, correlation.to_bytes(_CORRELATION, "big"), rest),)

    def is_good(self, body: memoryview) -> bool:
        """Whether this answer says that it is stored, and nothing else."""
        return body[_CORRELATION:] == self._good


def _with(marked: OffsetCommitRequest, offset: int, epoch: int) -> OffsetCommitRequest:
    (topic,) = marked.topics
    (part,) = topic.partitions
    part = replace(part, committed_offset=offset, committed_leader_epoch=epoch)
    return replace(marked, topics=[replace(topic, partitions=[part])])


def _first_difference(one: bytes, other: bytes) -> int:
    return next(at for at, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
