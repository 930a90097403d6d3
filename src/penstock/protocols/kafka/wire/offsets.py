"""Messages about committed offsets and their coordinator: FindCoordinator, OffsetCommit, OffsetFetch.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.protocols.kafka.wire.declarations import BOOL, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, Message, array


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
