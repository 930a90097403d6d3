"""DescribeLogDirs: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I16, I32, I64, STR, Api, array


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
