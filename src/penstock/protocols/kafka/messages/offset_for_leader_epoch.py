"""OffsetForLeaderEpoch: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, STR, Api, array


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
