"""The cluster as a whole: DescribeCluster, DescribeTopicPartitions, DescribeQuorum, GetTelemetrySubscriptions.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3; KIP-595, KIP-853.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import (
    BOOL,
    I8,
    I16,
    I32,
    I64,
    NO_UUID,
    STR,
    U16,
    UUID,
    Api,
    array,
    struct,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest:
    """DescribeCluster request, versions 0-2."""

    API: ClassVar[Api] = Api(60, 0, 2, flexible=0)
    include_cluster_authorized_operations: Annotated[bool, BOOL] = False
    endpoint_type: Annotated[int, I8.since(1)] = 1
    include_fenced_brokers: Annotated[bool, BOOL.since(2)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponseBroker:
    """One entry of ``brokers``."""

    broker_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None
    is_fenced: Annotated[bool, BOOL.since(2).ignorable()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse:
    """DescribeCluster response, versions 0-2."""

    API: ClassVar[Api] = Api(60, 0, 2, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    endpoint_type: Annotated[int, I8.since(1)] = 1
    cluster_id: Annotated[str, STR] = ""
    controller_id: Annotated[int, I32] = -1
    brokers: Annotated[Sequence[DescribeClusterResponseBroker], array(DescribeClusterResponseBroker)] = ()
    cluster_authorized_operations: Annotated[int, I32] = -2147483648


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequestTopic:
    """One entry of ``topics``."""

    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeQuorumRequestPartition], array(DescribeQuorumRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    """DescribeQuorum request, versions 0-2."""

    API: ClassVar[Api] = Api(55, 0, 2, flexible=0)
    topics: Annotated[Sequence[DescribeQuorumRequestTopic], array(DescribeQuorumRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponseReplica:
    """One entry of ``current_voters`` and ``observers``."""

    replica_id: Annotated[int, I32] = 0
    replica_directory_id: Annotated[bytes, UUID.since(2)] = NO_UUID
    log_end_offset: Annotated[int, I64] = 0
    last_fetch_timestamp: Annotated[int, I64.since(1).ignorable()] = -1
    last_caught_up_timestamp: Annotated[int, I64.since(1).ignorable()] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.since(2).ignorable().nullable()] = ""
    leader_id: Annotated[int, I32] = 0
    leader_epoch: Annotated[int, I32] = 0
    high_watermark: Annotated[int, I64] = 0
    current_voters: Annotated[Sequence[DescribeQuorumResponseReplica], array(DescribeQuorumResponseReplica)] = ()
    observers: Annotated[Sequence[DescribeQuorumResponseReplica], array(DescribeQuorumResponseReplica)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponseTopic:
    """One entry of ``topics``."""

    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeQuorumResponsePartition], array(DescribeQuorumResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponseListener:
    """One entry of ``listeners``."""

    name: Annotated[str, STR] = ""
    host: Annotated[str, STR] = ""
    port: Annotated[int, U16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponseNode:
    """One entry of ``nodes``."""

    node_id: Annotated[int, I32] = 0
    listeners: Annotated[Sequence[DescribeQuorumResponseListener], array(DescribeQuorumResponseListener)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    """DescribeQuorum response, versions 0-2."""

    API: ClassVar[Api] = Api(55, 0, 2, flexible=0)
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.since(2).ignorable().nullable()] = ""
    topics: Annotated[Sequence[DescribeQuorumResponseTopic], array(DescribeQuorumResponseTopic)] = ()
    nodes: Annotated[Sequence[DescribeQuorumResponseNode], array(DescribeQuorumResponseNode).since(2).ignorable()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    """GetTelemetrySubscriptions request, versions 0-0."""

    API: ClassVar[Api] = Api(71, 0, 0, flexible=0)
    client_instance_id: Annotated[bytes, UUID] = NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    """GetTelemetrySubscriptions response, versions 0-0."""

    API: ClassVar[Api] = Api(71, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    client_instance_id: Annotated[bytes, UUID] = NO_UUID
    subscription_id: Annotated[int, I32] = 0
    accepted_compression_types: Annotated[Sequence[int], array(I8)] = ()
    push_interval_ms: Annotated[int, I32] = 0
    telemetry_max_bytes: Annotated[int, I32] = 0
    delta_temporality: Annotated[bool, BOOL] = False
    requested_metrics: Annotated[Sequence[str], array(STR)] = ()
