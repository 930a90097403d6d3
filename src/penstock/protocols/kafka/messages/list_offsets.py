"""ListOffsets: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I8, I16, I32, I64, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    current_leader_epoch: Annotated[int, I32.since(4).ignorable()] = -1
    timestamp: Annotated[int, I64] = 0
    max_num_offsets: Annotated[int, I32.between(0, 0)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[ListOffsetsRequestPartition], array(ListOffsetsRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """ListOffsets request, versions 0-11."""

    API: ClassVar[Api] = Api(2, 0, 11, flexible=6)
    replica_id: Annotated[int, I32] = 0
    isolation_level: Annotated[int, I8.since(2)] = 0
    topics: Annotated[Sequence[ListOffsetsRequestTopic], array(ListOffsetsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32.since(10).ignorable()] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    old_style_offsets: Annotated[Sequence[int], array(I64).between(0, 0)] = ()
    timestamp: Annotated[int, I64.since(1)] = -1
    offset: Annotated[int, I64.since(1)] = -1
    leader_epoch: Annotated[int, I32.since(4).ignorable()] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[ListOffsetsResponsePartition], array(ListOffsetsResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    """ListOffsets response, versions 0-11."""

    API: ClassVar[Api] = Api(2, 0, 11, flexible=6)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[ListOffsetsResponseTopic], array(ListOffsetsResponseTopic)] = ()
