"""Reading a log: Fetch, and OffsetForLeaderEpoch, which finds out where two logs part.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import I8, I16, I32, I64, NO_UUID, RECORDS, STR, UUID, Api, array, struct
from penstock.seams import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestReplicaState:
    """The ``replica_state`` struct."""

    replica_id: Annotated[int, I32] = -1
    replica_epoch: Annotated[int, I64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestPartition:
    """One entry of ``partitions``."""

    partition: Annotated[int, I32] = 0
    current_leader_epoch: Annotated[int, I32.since(9).ignorable()] = -1
    fetch_offset: Annotated[int, I64] = 0
    last_fetched_epoch: Annotated[int, I32.since(12)] = -1
    log_start_offset: Annotated[int, I64.since(5).ignorable()] = -1
    partition_max_bytes: Annotated[int, I32] = 0
    replica_directory_id: Annotated[bytes, UUID.tag(0).since(17).ignorable()] = NO_UUID
    high_watermark: Annotated[int, I64.tag(1).since(18).ignorable()] = 9223372036854775807


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestTopic:
    """One entry of ``topics``."""

    topic: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[FetchRequestPartition], array(FetchRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestForgottenTopic:
    """One entry of ``forgotten_topics_data``."""

    topic: Annotated[str, STR.between(7, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Fetch request, versions 0-18."""

    API: ClassVar[Api] = Api(1, 0, 18, flexible=12)
    cluster_id: Annotated[str | None, STR.nullable().tag(0).since(12).ignorable()] = None
    replica_id: Annotated[int, I32.between(0, 14)] = -1
    replica_state: Annotated[FetchRequestReplicaState, struct(FetchRequestReplicaState).tag(1).since(15)] = (
        FetchRequestReplicaState()
    )
    max_wait_ms: Annotated[int, I32] = 0
    min_bytes: Annotated[int, I32] = 0
    max_bytes: Annotated[int, I32.since(3).ignorable()] = 2147483647
    isolation_level: Annotated[int, I8.since(4).ignorable()] = 0
    session_id: Annotated[int, I32.since(7).ignorable()] = 0
    session_epoch: Annotated[int, I32.since(7).ignorable()] = -1
    topics: Annotated[Sequence[FetchRequestTopic], array(FetchRequestTopic)] = ()
    forgotten_topics_data: Annotated[
        Sequence[FetchRequestForgottenTopic], array(FetchRequestForgottenTopic).since(7)
    ] = ()
    rack_id: Annotated[str, STR.since(11).ignorable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseDivergingEpoch:
    """The ``diverging_epoch`` struct."""

    epoch: Annotated[int, I32] = -1
    end_offset: Annotated[int, I64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseCurrentLeader:
    """The ``current_leader`` struct."""

    leader_id: Annotated[int, I32] = -1
    leader_epoch: Annotated[int, I32] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseSnapshotId:
    """The ``snapshot_id`` struct."""

    end_offset: Annotated[int, I64] = -1
    epoch: Annotated[int, I32] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseAbortedTransaction:
    """One entry of ``aborted_transactions``."""

    producer_id: Annotated[int, I64] = 0
    first_offset: Annotated[int, I64] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    high_watermark: Annotated[int, I64] = 0
    last_stable_offset: Annotated[int, I64.since(4).ignorable()] = -1
    log_start_offset: Annotated[int, I64.since(5).ignorable()] = -1
    diverging_epoch: Annotated[FetchResponseDivergingEpoch, struct(FetchResponseDivergingEpoch).tag(0).since(12)] = (
        FetchResponseDivergingEpoch()
    )
    current_leader: Annotated[
        FetchResponseCurrentLeader, struct(FetchResponseCurrentLeader).tag(1).since(12).ignorable()
    ] = FetchResponseCurrentLeader()
    snapshot_id: Annotated[FetchResponseSnapshotId, struct(FetchResponseSnapshotId).tag(2).since(12)] = (
        FetchResponseSnapshotId()
    )
    aborted_transactions: Annotated[
        Sequence[FetchResponseAbortedTransaction] | None,
        array(FetchResponseAbortedTransaction).nullable().since(4).ignorable(),
    ] = ()
    preferred_read_replica: Annotated[int, I32.since(11)] = -1
    records: Annotated[Buffer | None, RECORDS.nullable()] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseTopic:
    """One entry of ``responses``."""

    topic: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[FetchResponsePartition], array(FetchResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseNodeEndpoint:
    """One entry of ``node_endpoints``."""

    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Fetch response, versions 0-18."""

    API: ClassVar[Api] = Api(1, 0, 18, flexible=12)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16.since(7).ignorable()] = 0
    session_id: Annotated[int, I32.since(7)] = 0
    responses: Annotated[Sequence[FetchResponseTopic], array(FetchResponseTopic)] = ()
    node_endpoints: Annotated[
        Sequence[FetchResponseNodeEndpoint], array(FetchResponseNodeEndpoint).tag(0).since(16).ignorable()
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequestPartition:
    """One entry of ``partitions``."""

    partition: Annotated[int, I32] = 0
    current_leader_epoch: Annotated[int, I32.since(2).ignorable()] = -1
    leader_epoch: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequestTopic:
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[OffsetForLeaderEpochRequestPartition], array(OffsetForLeaderEpochRequestPartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch request, versions 0-4."""

    API: ClassVar[Api] = Api(23, 0, 4, flexible=4)
    replica_id: Annotated[int, I32.since(3).ignorable()] = -2
    topics: Annotated[Sequence[OffsetForLeaderEpochRequestTopic], array(OffsetForLeaderEpochRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponsePartition:
    """One entry of ``partitions``."""

    error_code: Annotated[int, I16] = 0
    partition: Annotated[int, I32] = 0
    leader_epoch: Annotated[int, I32.since(1).ignorable()] = -1
    end_offset: Annotated[int, I64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponseTopic:
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[OffsetForLeaderEpochResponsePartition], array(OffsetForLeaderEpochResponsePartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """OffsetForLeaderEpoch response, versions 0-4."""

    API: ClassVar[Api] = Api(23, 0, 4, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[OffsetForLeaderEpochResponseTopic], array(OffsetForLeaderEpochResponseTopic)] = ()
