"""OffsetDelete: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetDeleteRequestPartition], array(OffsetDeleteRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    """OffsetDelete request, versions 0-0."""

    API: ClassVar[Api] = Api(47, 0, 0, flexible=None)
    group_id: Annotated[str, STR] = ""
    topics: Annotated[Sequence[OffsetDeleteRequestTopic], array(OffsetDeleteRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetDeleteResponsePartition], array(OffsetDeleteResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    """OffsetDelete response, versions 0-0."""

    API: ClassVar[Api] = Api(47, 0, 0, flexible=None)
    error_code: Annotated[int, I16] = 0
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[OffsetDeleteResponseTopic], array(OffsetDeleteResponseTopic)] = ()
