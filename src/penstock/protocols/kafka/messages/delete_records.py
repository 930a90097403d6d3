"""DeleteRecords: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    offset: Annotated[int, I64] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DeleteRecordsRequestPartition], array(DeleteRecordsRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """DeleteRecords request, versions 0-2."""

    API: ClassVar[Api] = Api(21, 0, 2, flexible=2)
    topics: Annotated[Sequence[DeleteRecordsRequestTopic], array(DeleteRecordsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    low_watermark: Annotated[int, I64] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DeleteRecordsResponsePartition], array(DeleteRecordsResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """DeleteRecords response, versions 0-2."""

    API: ClassVar[Api] = Api(21, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DeleteRecordsResponseTopic], array(DeleteRecordsResponseTopic)] = ()
