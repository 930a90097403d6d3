"""OffsetCommit: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, NO_UUID, STR, UUID, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    committed_offset: Annotated[int, I64] = 0
    committed_leader_epoch: Annotated[int, I32.since(6).ignorable()] = -1
    commit_timestamp: Annotated[int, I64.between(1, 1)] = -1
    committed_metadata: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 9).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[OffsetCommitRequestPartition], array(OffsetCommitRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """OffsetCommit request, versions 0-10."""

    API: ClassVar[Api] = Api(8, 0, 10, flexible=8)
    group_id: Annotated[str, STR] = ""
    generation_id_or_member_epoch: Annotated[int, I32.since(1).ignorable()] = -1
    member_id: Annotated[str, STR.since(1).ignorable()] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(7)] = None
    retention_time_ms: Annotated[int, I64.between(2, 4).ignorable()] = -1
    topics: Annotated[Sequence[OffsetCommitRequestTopic], array(OffsetCommitRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 9).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[OffsetCommitResponsePartition], array(OffsetCommitResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """OffsetCommit response, versions 0-10."""

    API: ClassVar[Api] = Api(8, 0, 10, flexible=8)
    throttle_time_ms: Annotated[int, I32.since(3).ignorable()] = 0
    topics: Annotated[Sequence[OffsetCommitResponseTopic], array(OffsetCommitResponseTopic)] = ()
