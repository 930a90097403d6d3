"""Messages about topics: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.protocols.kafka.wire.declarations import BOOL, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, Message, array


class CreateTopicsRequestAssignment(Message):
    """One entry of ``assignments``."""

    partition_index: Annotated[int, I32] = 0
    broker_ids: Annotated[Sequence[int], array(I32)] = ()


class CreateTopicsRequestConfig(Message):
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""


class CreateTopicsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    num_partitions: Annotated[int, I32] = 0
    replication_factor: Annotated[int, I16] = 0
    assignments: Annotated[Sequence[CreateTopicsRequestAssignment], array(CreateTopicsRequestAssignment)] = ()
    configs: Annotated[Sequence[CreateTopicsRequestConfig], array(CreateTopicsRequestConfig)] = ()


class CreateTopicsRequest(Message):
    """CreateTopics request, versions 0-7."""

    API: ClassVar[Api] = Api(19, 0, 7, flexible=5)
    topics: Annotated[Sequence[CreateTopicsRequestTopic], array(CreateTopicsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 60000
    validate_only: Annotated[bool, BOOL.since(1)] = False


class CreateTopicsResponseConfig(Message):
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    read_only: Annotated[bool, BOOL] = False
    config_source: Annotated[int, I8] = -1
    is_sensitive: Annotated[bool, BOOL] = False


class CreateTopicsResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    topic_id: Annotated[bytes, UUID.since(7).ignorable()] = NO_UUID
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(1).ignorable()] = ""
    topic_config_error_code: Annotated[int, I16.tag(0).since(5).ignorable()] = 0
    num_partitions: Annotated[int, I32.since(5).ignorable()] = -1
    replication_factor: Annotated[int, I16.since(5).ignorable()] = -1
    configs: Annotated[
        Sequence[CreateTopicsResponseConfig] | None, array(CreateTopicsResponseConfig).nullable().since(5).ignorable()
    ] = ()


class CreateTopicsResponse(Message):
    """CreateTopics response, versions 0-7."""

    API: ClassVar[Api] = Api(19, 0, 7, flexible=5)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[CreateTopicsResponseTopic], array(CreateTopicsResponseTopic)] = ()


class DeleteTopicsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str | None, STR.nullable()] = None
    topic_id: Annotated[bytes, UUID] = NO_UUID


class DeleteTopicsRequest(Message):
    """DeleteTopics request, versions 0-6."""

    API: ClassVar[Api] = Api(20, 0, 6, flexible=4)
    topics: Annotated[Sequence[DeleteTopicsRequestTopic], array(DeleteTopicsRequestTopic).since(6)] = ()
    topic_names: Annotated[Sequence[str], array(STR).between(0, 5).ignorable()] = ()
    timeout_ms: Annotated[int, I32] = 0


class DeleteTopicsResponseTopic(Message):
    """One entry of ``responses``."""

    name: Annotated[str | None, STR.nullable(6)] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(5).ignorable()] = None


class DeleteTopicsResponse(Message):
    """DeleteTopics response, versions 0-6."""

    API: ClassVar[Api] = Api(20, 0, 6, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    responses: Annotated[Sequence[DeleteTopicsResponseTopic], array(DeleteTopicsResponseTopic)] = ()


class CreatePartitionsRequestAssignment(Message):
    """One entry of ``assignments``."""

    broker_ids: Annotated[Sequence[int], array(I32)] = ()


class CreatePartitionsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    count: Annotated[int, I32] = 0
    assignments: Annotated[
        Sequence[CreatePartitionsRequestAssignment] | None, array(CreatePartitionsRequestAssignment).nullable()
    ] = ()


class CreatePartitionsRequest(Message):
    """CreatePartitions request, versions 0-3."""

    API: ClassVar[Api] = Api(37, 0, 3, flexible=2)
    topics: Annotated[Sequence[CreatePartitionsRequestTopic], array(CreatePartitionsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 0
    validate_only: Annotated[bool, BOOL] = False


class CreatePartitionsResponseResult(Message):
    """One entry of ``results``."""

    name: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None


class CreatePartitionsResponse(Message):
    """CreatePartitions response, versions 0-3."""

    API: ClassVar[Api] = Api(37, 0, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[CreatePartitionsResponseResult], array(CreatePartitionsResponseResult)] = ()


class DeleteRecordsRequestPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    offset: Annotated[int, I64] = 0


class DeleteRecordsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DeleteRecordsRequestPartition], array(DeleteRecordsRequestPartition)] = ()


class DeleteRecordsRequest(Message):
    """DeleteRecords request, versions 0-2."""

    API: ClassVar[Api] = Api(21, 0, 2, flexible=2)
    topics: Annotated[Sequence[DeleteRecordsRequestTopic], array(DeleteRecordsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 0


class DeleteRecordsResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    low_watermark: Annotated[int, I64] = 0
    error_code: Annotated[int, I16] = 0


class DeleteRecordsResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DeleteRecordsResponsePartition], array(DeleteRecordsResponsePartition)] = ()


class DeleteRecordsResponse(Message):
    """DeleteRecords response, versions 0-2."""

    API: ClassVar[Api] = Api(21, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DeleteRecordsResponseTopic], array(DeleteRecordsResponseTopic)] = ()
