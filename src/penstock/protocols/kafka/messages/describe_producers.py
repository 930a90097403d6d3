"""DescribeProducers: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    """DescribeProducers request, versions 0-0."""

    API: ClassVar[Api] = Api(61, 0, 0, flexible=0)
    topics: Annotated[Sequence[DescribeProducersRequestTopic], array(DescribeProducersRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponseActiveProducer:
    """One entry of ``active_producers``."""

    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I32] = 0
    last_sequence: Annotated[int, I32] = -1
    last_timestamp: Annotated[int, I64] = -1
    coordinator_epoch: Annotated[int, I32] = 0
    current_txn_start_offset: Annotated[int, I64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    active_producers: Annotated[
        Sequence[DescribeProducersResponseActiveProducer], array(DescribeProducersResponseActiveProducer)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeProducersResponsePartition], array(DescribeProducersResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    """DescribeProducers response, versions 0-0."""

    API: ClassVar[Api] = Api(61, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DescribeProducersResponseTopic], array(DescribeProducersResponseTopic)] = ()
