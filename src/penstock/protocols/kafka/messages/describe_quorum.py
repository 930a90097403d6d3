"""DescribeQuorum: the messages as data (Apache Kafka protocol guide, schemas of 4.3; KIP-595, KIP-853).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, NO_UUID, STR, U16, UUID, Api, array


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
