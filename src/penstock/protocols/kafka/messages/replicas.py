"""Where replicas are, and which of them leads: reassignment (KIP-455), ElectLeaders (KIP-460), log dirs (KIP-113).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3; KIP-860.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, I64, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequestPartition:
    """One entry of ``partitions``; ``replicas`` None ends a move that is under way."""

    partition_index: Annotated[int, I32] = 0
    replicas: Annotated[Sequence[int] | None, array(I32).nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterPartitionReassignmentsRequestPartition], array(AlterPartitionReassignmentsRequestPartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """AlterPartitionReassignments request, versions 0-1."""

    API: ClassVar[Api] = Api(45, 0, 1, flexible=0)
    timeout_ms: Annotated[int, I32] = 60000
    allow_replication_factor_change: Annotated[bool, BOOL.since(1)] = True
    topics: Annotated[
        Sequence[AlterPartitionReassignmentsRequestTopic], array(AlterPartitionReassignmentsRequestTopic)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponseTopic:
    """One entry of ``responses``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterPartitionReassignmentsResponsePartition], array(AlterPartitionReassignmentsResponsePartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments response, versions 0-1."""

    API: ClassVar[Api] = Api(45, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    allow_replication_factor_change: Annotated[bool, BOOL.since(1).ignorable()] = True
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    responses: Annotated[
        Sequence[AlterPartitionReassignmentsResponseTopic], array(AlterPartitionReassignmentsResponseTopic)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """ListPartitionReassignments request, version 0; ``topics`` None asks for all."""

    API: ClassVar[Api] = Api(46, 0, 0, flexible=0)
    timeout_ms: Annotated[int, I32] = 60000
    topics: Annotated[
        Sequence[ListPartitionReassignmentsRequestTopic] | None,
        array(ListPartitionReassignmentsRequestTopic).nullable(),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponsePartition:
    """One entry of ``partitions``: a partition that is being moved."""

    partition_index: Annotated[int, I32] = 0
    replicas: Annotated[Sequence[int], array(I32)] = ()
    adding_replicas: Annotated[Sequence[int], array(I32)] = ()
    removing_replicas: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[ListPartitionReassignmentsResponsePartition], array(ListPartitionReassignmentsResponsePartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """ListPartitionReassignments response, version 0."""

    API: ClassVar[Api] = Api(46, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    topics: Annotated[
        Sequence[ListPartitionReassignmentsResponseTopic], array(ListPartitionReassignmentsResponseTopic)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequestTopicPartitions:
    """One entry of ``topic_partitions``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """ElectLeaders request, versions 0-2; ``topic_partitions`` None asks for all."""

    API: ClassVar[Api] = Api(43, 0, 2, flexible=2)
    election_type: Annotated[int, I8.since(1)] = 0
    topic_partitions: Annotated[
        Sequence[ElectLeadersRequestTopicPartitions] | None, array(ElectLeadersRequestTopicPartitions).nullable()
    ] = ()
    timeout_ms: Annotated[int, I32] = 60000


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponsePartition:
    """One entry of ``partition_result``."""

    partition_id: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponseTopic:
    """One entry of ``replica_election_results``."""

    topic: Annotated[str, STR] = ""
    partition_result: Annotated[Sequence[ElectLeadersResponsePartition], array(ElectLeadersResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    """ElectLeaders response, versions 0-2."""

    API: ClassVar[Api] = Api(43, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16.since(1)] = 0
    replica_election_results: Annotated[Sequence[ElectLeadersResponseTopic], array(ElectLeadersResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequestTopic:
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """DescribeLogDirs request, versions 1-5."""

    API: ClassVar[Api] = Api(35, 1, 5, flexible=2)
    topics: Annotated[Sequence[DescribeLogDirsRequestTopic] | None, array(DescribeLogDirsRequestTopic).nullable()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    partition_size: Annotated[int, I64] = 0
    offset_lag: Annotated[int, I64] = 0
    is_future_key: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeLogDirsResponsePartition], array(DescribeLogDirsResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponseResult:
    """One entry of ``results``."""

    error_code: Annotated[int, I16] = 0
    log_dir: Annotated[str, STR] = ""
    topics: Annotated[Sequence[DescribeLogDirsResponseTopic], array(DescribeLogDirsResponseTopic)] = ()
    total_bytes: Annotated[int, I64.since(4).ignorable()] = -1
    usable_bytes: Annotated[int, I64.since(4).ignorable()] = -1
    is_cordoned: Annotated[bool, BOOL.since(5).ignorable()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """DescribeLogDirs response, versions 1-5."""

    API: ClassVar[Api] = Api(35, 1, 5, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16.since(3).ignorable()] = 0
    results: Annotated[Sequence[DescribeLogDirsResponseResult], array(DescribeLogDirsResponseResult)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsRequestDir:
    """One entry of ``dirs``."""

    path: Annotated[str, STR] = ""
    topics: Annotated[Sequence[AlterReplicaLogDirsRequestTopic], array(AlterReplicaLogDirsRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsRequest:
    """AlterReplicaLogDirs request, versions 1-2."""

    API: ClassVar[Api] = Api(34, 1, 2, flexible=2)
    dirs: Annotated[Sequence[AlterReplicaLogDirsRequestDir], array(AlterReplicaLogDirsRequestDir)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponseTopic:
    """One entry of ``results``."""

    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterReplicaLogDirsResponsePartition], array(AlterReplicaLogDirsResponsePartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponse:
    """AlterReplicaLogDirs response, versions 1-2."""

    API: ClassVar[Api] = Api(34, 1, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[AlterReplicaLogDirsResponseTopic], array(AlterReplicaLogDirsResponseTopic)] = ()
