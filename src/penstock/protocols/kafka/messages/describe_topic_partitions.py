"""DescribeTopicPartitions: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I16, I32, NO_UUID, STR, UUID, Api, array, struct


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsRequestCursor:
    """The ``cursor`` struct."""

    topic_name: Annotated[str, STR] = ""
    partition_index: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """DescribeTopicPartitions request, versions 0-0."""

    API: ClassVar[Api] = Api(75, 0, 0, flexible=0)
    topics: Annotated[Sequence[DescribeTopicPartitionsRequestTopic], array(DescribeTopicPartitionsRequestTopic)] = ()
    response_partition_limit: Annotated[int, I32] = 2000
    cursor: Annotated[
        DescribeTopicPartitionsRequestCursor | None, struct(DescribeTopicPartitionsRequestCursor).nullable()
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    """One entry of ``partitions``."""

    error_code: Annotated[int, I16] = 0
    partition_index: Annotated[int, I32] = 0
    leader_id: Annotated[int, I32] = 0
    leader_epoch: Annotated[int, I32] = -1
    replica_nodes: Annotated[Sequence[int], array(I32)] = ()
    isr_nodes: Annotated[Sequence[int], array(I32)] = ()
    eligible_leader_replicas: Annotated[Sequence[int] | None, array(I32).nullable()] = None
    last_known_elr: Annotated[Sequence[int] | None, array(I32).nullable()] = None
    offline_replicas: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """One entry of ``topics``."""

    error_code: Annotated[int, I16] = 0
    name: Annotated[str | None, STR.nullable()] = ""
    topic_id: Annotated[bytes, UUID] = NO_UUID
    is_internal: Annotated[bool, BOOL] = False
    partitions: Annotated[
        Sequence[DescribeTopicPartitionsResponsePartition], array(DescribeTopicPartitionsResponsePartition)
    ] = ()
    topic_authorized_operations: Annotated[int, I32] = -2147483648


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponseNextCursor:
    """The ``next_cursor`` struct."""

    topic_name: Annotated[str, STR] = ""
    partition_index: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """DescribeTopicPartitions response, versions 0-0."""

    API: ClassVar[Api] = Api(75, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DescribeTopicPartitionsResponseTopic], array(DescribeTopicPartitionsResponseTopic)] = ()
    next_cursor: Annotated[
        DescribeTopicPartitionsResponseNextCursor | None, struct(DescribeTopicPartitionsResponseNextCursor).nullable()
    ] = None
