"""AlterPartitionReassignments: the messages as data (Apache Kafka protocol guide, schemas of 4.3; KIP-455, KIP-860).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequestPartition:
    """One entry of ``partitions``; ``replicas`` None ends a move that is under way."""

    partition_index: Annotated[int, I32] = 0
    replicas: Annotated[Sequence[int] | None, array(I32).nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterPartitionReassignmentsRequestPartition], array(AlterPartitionReassignmentsRequestPartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """AlterPartitionReassignments request, versions 0-1."""

    API: ClassVar[Api] = Api(45, 0, 1, flexible=0)
    timeout_ms: Annotated[int, I32] = 60000
    allow_replication_factor_change: Annotated[bool, BOOL.since(1)] = True
    topics: Annotated[
        Sequence[AlterPartitionReassignmentsRequestTopic], array(AlterPartitionReassignmentsRequestTopic)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponseTopic:
    """One entry of ``responses``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[AlterPartitionReassignmentsResponsePartition], array(AlterPartitionReassignmentsResponsePartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments response, versions 0-1."""

    API: ClassVar[Api] = Api(45, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    allow_replication_factor_change: Annotated[bool, BOOL.since(1).ignorable()] = True
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    responses: Annotated[
        Sequence[AlterPartitionReassignmentsResponseTopic], array(AlterPartitionReassignmentsResponseTopic)
    ] = ()
