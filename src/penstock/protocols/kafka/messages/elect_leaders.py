"""ElectLeaders: the messages as data (Apache Kafka protocol guide, schemas of 4.3; KIP-460).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequestTopicPartitions:
    """One entry of ``topic_partitions``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """ElectLeaders request, versions 0-2; ``topic_partitions`` None asks for all."""

    API: ClassVar[Api] = Api(43, 0, 2, flexible=2)
    election_type: Annotated[int, I8.since(1)] = 0
    topic_partitions: Annotated[
        Sequence[ElectLeadersRequestTopicPartitions] | None, array(ElectLeadersRequestTopicPartitions).nullable()
    ] = ()
    timeout_ms: Annotated[int, I32] = 60000


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponsePartition:
    """One entry of ``partition_result``."""

    partition_id: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponseTopic:
    """One entry of ``replica_election_results``."""

    topic: Annotated[str, STR] = ""
    partition_result: Annotated[Sequence[ElectLeadersResponsePartition], array(ElectLeadersResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    """ElectLeaders response, versions 0-2."""

    API: ClassVar[Api] = Api(43, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16.since(1)] = 0
    replica_election_results: Annotated[Sequence[ElectLeadersResponseTopic], array(ElectLeadersResponseTopic)] = ()
