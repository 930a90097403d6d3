"""Topics and what is in them: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.wire.declarations import BOOL, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequestAssignment:
    """One entry of ``assignments``."""

    partition_index: Annotated[int, I32] = 0
    broker_ids: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequestConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    num_partitions: Annotated[int, I32] = 0
    replication_factor: Annotated[int, I16] = 0
    assignments: Annotated[Sequence[CreateTopicsRequestAssignment], array(CreateTopicsRequestAssignment)] = ()
    configs: Annotated[Sequence[CreateTopicsRequestConfig], array(CreateTopicsRequestConfig)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    """CreateTopics request, versions 0-7."""

    API: ClassVar[Api] = Api(19, 0, 7, flexible=5)
    topics: Annotated[Sequence[CreateTopicsRequestTopic], array(CreateTopicsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 60000
    validate_only: Annotated[bool, BOOL.since(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponseConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    read_only: Annotated[bool, BOOL] = False
    config_source: Annotated[int, I8] = -1
    is_sensitive: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponseTopic:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """CreateTopics response, versions 0-7."""

    API: ClassVar[Api] = Api(19, 0, 7, flexible=5)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[CreateTopicsResponseTopic], array(CreateTopicsResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str | None, STR.nullable()] = None
    topic_id: Annotated[bytes, UUID] = NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """DeleteTopics request, versions 0-6."""

    API: ClassVar[Api] = Api(20, 0, 6, flexible=4)
    topics: Annotated[Sequence[DeleteTopicsRequestTopic], array(DeleteTopicsRequestTopic).since(6)] = ()
    topic_names: Annotated[Sequence[str], array(STR).between(0, 5).ignorable()] = ()
    timeout_ms: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponseTopic:
    """One entry of ``responses``."""

    name: Annotated[str | None, STR.nullable(6)] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(5).ignorable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    """DeleteTopics response, versions 0-6."""

    API: ClassVar[Api] = Api(20, 0, 6, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    responses: Annotated[Sequence[DeleteTopicsResponseTopic], array(DeleteTopicsResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequestAssignment:
    """One entry of ``assignments``."""

    broker_ids: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    count: Annotated[int, I32] = 0
    assignments: Annotated[
        Sequence[CreatePartitionsRequestAssignment] | None, array(CreatePartitionsRequestAssignment).nullable()
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest:
    """CreatePartitions request, versions 0-3."""

    API: ClassVar[Api] = Api(37, 0, 3, flexible=2)
    topics: Annotated[Sequence[CreatePartitionsRequestTopic], array(CreatePartitionsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 0
    validate_only: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponseResult:
    """One entry of ``results``."""

    name: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse:
    """CreatePartitions response, versions 0-3."""

    API: ClassVar[Api] = Api(37, 0, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[CreatePartitionsResponseResult], array(CreatePartitionsResponseResult)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    offset: Annotated[int, I64] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DeleteRecordsRequestPartition], array(DeleteRecordsRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """DeleteRecords request, versions 0-2."""

    API: ClassVar[Api] = Api(21, 0, 2, flexible=2)
    topics: Annotated[Sequence[DeleteRecordsRequestTopic], array(DeleteRecordsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    low_watermark: Annotated[int, I64] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DeleteRecordsResponsePartition], array(DeleteRecordsResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """DeleteRecords response, versions 0-2."""

    API: ClassVar[Api] = Api(21, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DeleteRecordsResponseTopic], array(DeleteRecordsResponseTopic)] = ()
