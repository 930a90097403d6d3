"""Messages about the cluster: brokers, the quorum, telemetry, and where replicas are stored.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3; KIP-113, KIP-455, KIP-460, KIP-595, KIP-853, KIP-860.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.protocols.kafka.wire.declarations import (
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
    Message,
    array,
    struct_field,
)


# The cluster: DescribeCluster, DescribeTopicPartitions, DescribeQuorum (KIP-595, KIP-853), GetTelemetrySubscriptions.
class DescribeClusterRequest(Message):
    """DescribeCluster request, versions 0-2."""

    API: ClassVar[Api] = Api(60, 0, 2, flexible=0)
    include_cluster_authorized_operations: Annotated[bool, BOOL] = False
    endpoint_type: Annotated[int, I8.since(1)] = 1
    include_fenced_brokers: Annotated[bool, BOOL.since(2)] = False


class DescribeClusterResponseBroker(Message):
    """One entry of ``brokers``."""

    broker_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None
    is_fenced: Annotated[bool, BOOL.since(2).ignorable()] = False


class DescribeClusterResponse(Message):
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


class DescribeTopicPartitionsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""


class DescribeTopicPartitionsRequestCursor(Message):
    """The ``cursor`` struct."""

    topic_name: Annotated[str, STR] = ""
    partition_index: Annotated[int, I32] = 0


class DescribeTopicPartitionsRequest(Message):
    """DescribeTopicPartitions request, versions 0-0."""

    API: ClassVar[Api] = Api(75, 0, 0, flexible=0)
    topics: Annotated[Sequence[DescribeTopicPartitionsRequestTopic], array(DescribeTopicPartitionsRequestTopic)] = ()
    response_partition_limit: Annotated[int, I32] = 2000
    cursor: Annotated[
        DescribeTopicPartitionsRequestCursor | None, struct_field(DescribeTopicPartitionsRequestCursor).nullable()
    ] = None


class DescribeTopicPartitionsResponsePartition(Message):
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


class DescribeTopicPartitionsResponseTopic(Message):
    """One entry of ``topics``."""

    error_code: Annotated[int, I16] = 0
    name: Annotated[str | None, STR.nullable()] = ""
    topic_id: Annotated[bytes, UUID] = NO_UUID
    is_internal: Annotated[bool, BOOL] = False
    partitions: Annotated[
        Sequence[DescribeTopicPartitionsResponsePartition], array(DescribeTopicPartitionsResponsePartition)
    ] = ()
    topic_authorized_operations: Annotated[int, I32] = -2147483648


class DescribeTopicPartitionsResponseNextCursor(Message):
    """The ``next_cursor`` struct."""

    topic_name: Annotated[str, STR] = ""
    partition_index: Annotated[int, I32] = 0


class DescribeTopicPartitionsResponse(Message):
    """DescribeTopicPartitions response, versions 0-0."""

    API: ClassVar[Api] = Api(75, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DescribeTopicPartitionsResponseTopic], array(DescribeTopicPartitionsResponseTopic)] = ()
    next_cursor: Annotated[
        DescribeTopicPartitionsResponseNextCursor | None,
        struct_field(DescribeTopicPartitionsResponseNextCursor).nullable(),
    ] = None


class DescribeQuorumRequestPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0


class DescribeQuorumRequestTopic(Message):
    """One entry of ``topics``."""

    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeQuorumRequestPartition], array(DescribeQuorumRequestPartition)] = ()


class DescribeQuorumRequest(Message):
    """DescribeQuorum request, versions 0-2."""

    API: ClassVar[Api] = Api(55, 0, 2, flexible=0)
    topics: Annotated[Sequence[DescribeQuorumRequestTopic], array(DescribeQuorumRequestTopic)] = ()


class DescribeQuorumResponseReplica(Message):
    """One entry of ``current_voters`` and ``observers``."""

    replica_id: Annotated[int, I32] = 0
    replica_directory_id: Annotated[bytes, UUID.since(2)] = NO_UUID
    log_end_offset: Annotated[int, I64] = 0
    last_fetch_timestamp: Annotated[int, I64.since(1).ignorable()] = -1
    last_caught_up_timestamp: Annotated[int, I64.since(1).ignorable()] = -1


class DescribeQuorumResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.since(2).ignorable().nullable()] = ""
    leader_id: Annotated[int, I32] = 0
    leader_epoch: Annotated[int, I32] = 0
    high_watermark: Annotated[int, I64] = 0
    current_voters: Annotated[Sequence[DescribeQuorumResponseReplica], array(DescribeQuorumResponseReplica)] = ()
    observers: Annotated[Sequence[DescribeQuorumResponseReplica], array(DescribeQuorumResponseReplica)] = ()


class DescribeQuorumResponseTopic(Message):
    """One entry of ``topics``."""

    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeQuorumResponsePartition], array(DescribeQuorumResponsePartition)] = ()


class DescribeQuorumResponseListener(Message):
    """One entry of ``listeners``."""

    name: Annotated[str, STR] = ""
    host: Annotated[str, STR] = ""
    port: Annotated[int, U16] = 0


class DescribeQuorumResponseNode(Message):
    """One entry of ``nodes``."""

    node_id: Annotated[int, I32] = 0
    listeners: Annotated[Sequence[DescribeQuorumResponseListener], array(DescribeQuorumResponseListener)] = ()


class DescribeQuorumResponse(Message):
    """DescribeQuorum response, versions 0-2."""

    API: ClassVar[Api] = Api(55, 0, 2, flexible=0)
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.since(2).ignorable().nullable()] = ""
    topics: Annotated[Sequence[DescribeQuorumResponseTopic], array(DescribeQuorumResponseTopic)] = ()
    nodes: Annotated[Sequence[DescribeQuorumResponseNode], array(DescribeQuorumResponseNode).since(2).ignorable()] = ()


class GetTelemetrySubscriptionsRequest(Message):
    """GetTelemetrySubscriptions request, versions 0-0."""

    API: ClassVar[Api] = Api(71, 0, 0, flexible=0)
    client_instance_id: Annotated[bytes, UUID] = NO_UUID


class GetTelemetrySubscriptionsResponse(Message):
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


# Replicas: reassignment (KIP-455, KIP-860), ElectLeaders (KIP-460), log dirs (KIP-113).
class AlterPartitionReassignmentsRequestPartition(Message):
    """One entry of ``partitions``; ``replicas`` None cancels the reassignment in progress."""

    partition_index: Annotated[int, I32] = 0
    replicas: Annotated[Sequence[int] | None, array(I32).nullable()] = None


class AlterPartitionReassignmentsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterPartitionReassignmentsRequestPartition], array(AlterPartitionReassignmentsRequestPartition)
    ] = ()


class AlterPartitionReassignmentsRequest(Message):
    """AlterPartitionReassignments request, versions 0-1."""

    API: ClassVar[Api] = Api(45, 0, 1, flexible=0)
    timeout_ms: Annotated[int, I32] = 60000
    allow_replication_factor_change: Annotated[bool, BOOL.since(1)] = True
    topics: Annotated[
        Sequence[AlterPartitionReassignmentsRequestTopic], array(AlterPartitionReassignmentsRequestTopic)
    ] = ()


class AlterPartitionReassignmentsResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


class AlterPartitionReassignmentsResponseTopic(Message):
    """One entry of ``responses``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterPartitionReassignmentsResponsePartition], array(AlterPartitionReassignmentsResponsePartition)
    ] = ()


class AlterPartitionReassignmentsResponse(Message):
    """AlterPartitionReassignments response, versions 0-1."""

    API: ClassVar[Api] = Api(45, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    allow_replication_factor_change: Annotated[bool, BOOL.since(1).ignorable()] = True
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    responses: Annotated[
        Sequence[AlterPartitionReassignmentsResponseTopic], array(AlterPartitionReassignmentsResponseTopic)
    ] = ()


class ListPartitionReassignmentsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


class ListPartitionReassignmentsRequest(Message):
    """ListPartitionReassignments request, version 0; ``topics`` None lists all topics."""

    API: ClassVar[Api] = Api(46, 0, 0, flexible=0)
    timeout_ms: Annotated[int, I32] = 60000
    topics: Annotated[
        Sequence[ListPartitionReassignmentsRequestTopic] | None,
        array(ListPartitionReassignmentsRequestTopic).nullable(),
    ] = None


class ListPartitionReassignmentsResponsePartition(Message):
    """One entry of ``partitions``: a partition whose replicas are being reassigned."""

    partition_index: Annotated[int, I32] = 0
    replicas: Annotated[Sequence[int], array(I32)] = ()
    adding_replicas: Annotated[Sequence[int], array(I32)] = ()
    removing_replicas: Annotated[Sequence[int], array(I32)] = ()


class ListPartitionReassignmentsResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[ListPartitionReassignmentsResponsePartition], array(ListPartitionReassignmentsResponsePartition)
    ] = ()


class ListPartitionReassignmentsResponse(Message):
    """ListPartitionReassignments response, version 0."""

    API: ClassVar[Api] = Api(46, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    topics: Annotated[
        Sequence[ListPartitionReassignmentsResponseTopic], array(ListPartitionReassignmentsResponseTopic)
    ] = ()


class ElectLeadersRequestTopicPartitions(Message):
    """One entry of ``topic_partitions``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class ElectLeadersRequest(Message):
    """ElectLeaders request, versions 0-2; ``topic_partitions`` None means all partitions."""

    API: ClassVar[Api] = Api(43, 0, 2, flexible=2)
    election_type: Annotated[int, I8.since(1)] = 0
    topic_partitions: Annotated[
        Sequence[ElectLeadersRequestTopicPartitions] | None, array(ElectLeadersRequestTopicPartitions).nullable()
    ] = ()
    timeout_ms: Annotated[int, I32] = 60000


class ElectLeadersResponsePartition(Message):
    """One entry of ``partition_result``."""

    partition_id: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


class ElectLeadersResponseTopic(Message):
    """One entry of ``replica_election_results``."""

    topic: Annotated[str, STR] = ""
    partition_result: Annotated[Sequence[ElectLeadersResponsePartition], array(ElectLeadersResponsePartition)] = ()


class ElectLeadersResponse(Message):
    """ElectLeaders response, versions 0-2."""

    API: ClassVar[Api] = Api(43, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16.since(1)] = 0
    replica_election_results: Annotated[Sequence[ElectLeadersResponseTopic], array(ElectLeadersResponseTopic)] = ()


class DescribeLogDirsRequestTopic(Message):
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class DescribeLogDirsRequest(Message):
    """DescribeLogDirs request, versions 1-5."""

    API: ClassVar[Api] = Api(35, 1, 5, flexible=2)
    topics: Annotated[Sequence[DescribeLogDirsRequestTopic] | None, array(DescribeLogDirsRequestTopic).nullable()] = ()


class DescribeLogDirsResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    partition_size: Annotated[int, I64] = 0
    offset_lag: Annotated[int, I64] = 0
    is_future_key: Annotated[bool, BOOL] = False


class DescribeLogDirsResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeLogDirsResponsePartition], array(DescribeLogDirsResponsePartition)] = ()


class DescribeLogDirsResponseResult(Message):
    """One entry of ``results``."""

    error_code: Annotated[int, I16] = 0
    log_dir: Annotated[str, STR] = ""
    topics: Annotated[Sequence[DescribeLogDirsResponseTopic], array(DescribeLogDirsResponseTopic)] = ()
    total_bytes: Annotated[int, I64.since(4).ignorable()] = -1
    usable_bytes: Annotated[int, I64.since(4).ignorable()] = -1
    is_cordoned: Annotated[bool, BOOL.since(5).ignorable()] = False


class DescribeLogDirsResponse(Message):
    """DescribeLogDirs response, versions 1-5."""

    API: ClassVar[Api] = Api(35, 1, 5, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16.since(3).ignorable()] = 0
    results: Annotated[Sequence[DescribeLogDirsResponseResult], array(DescribeLogDirsResponseResult)] = ()


class AlterReplicaLogDirsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class AlterReplicaLogDirsRequestDir(Message):
    """One entry of ``dirs``."""

    path: Annotated[str, STR] = ""
    topics: Annotated[Sequence[AlterReplicaLogDirsRequestTopic], array(AlterReplicaLogDirsRequestTopic)] = ()


class AlterReplicaLogDirsRequest(Message):
    """AlterReplicaLogDirs request, versions 1-2."""

    API: ClassVar[Api] = Api(34, 1, 2, flexible=2)
    dirs: Annotated[Sequence[AlterReplicaLogDirsRequestDir], array(AlterReplicaLogDirsRequestDir)] = ()


class AlterReplicaLogDirsResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


class AlterReplicaLogDirsResponseTopic(Message):
    """One entry of ``results``."""

    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterReplicaLogDirsResponsePartition], array(AlterReplicaLogDirsResponsePartition)
    ] = ()


class AlterReplicaLogDirsResponse(Message):
    """AlterReplicaLogDirs response, versions 1-2."""

    API: ClassVar[Api] = Api(34, 1, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[AlterReplicaLogDirsResponseTopic], array(AlterReplicaLogDirsResponseTopic)] = ()
