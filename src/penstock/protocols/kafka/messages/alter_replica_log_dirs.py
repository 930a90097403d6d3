"""AlterReplicaLogDirs: the messages as data (Apache Kafka protocol guide, schemas of 4.3; KIP-113).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api, array


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
