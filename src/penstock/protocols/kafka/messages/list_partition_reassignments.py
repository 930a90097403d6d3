"""ListPartitionReassignments: the messages as data (Apache Kafka protocol guide, message schemas of 4.3; KIP-455).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """ListPartitionReassignments request, version 0; ``topics`` None asks for all."""

    API: ClassVar[Api] = Api(46, 0, 0, flexible=0)
    timeout_ms: Annotated[int, I32] = 60000
    topics: Annotated[
        Sequence[ListPartitionReassignmentsRequestTopic] | None,
        array(ListPartitionReassignmentsRequestTopic).nullable(),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponsePartition:
    """One entry of ``partitions``: a partition that is being moved."""

    partition_index: Annotated[int, I32] = 0
    replicas: Annotated[Sequence[int], array(I32)] = ()
    adding_replicas: Annotated[Sequence[int], array(I32)] = ()
    removing_replicas: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[ListPartitionReassignmentsResponsePartition], array(ListPartitionReassignmentsResponsePartition)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """ListPartitionReassignments response, version 0."""

    API: ClassVar[Api] = Api(46, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    topics: Annotated[
        Sequence[ListPartitionReassignmentsResponseTopic], array(ListPartitionReassignmentsResponseTopic)
    ] = ()
