"""FindCoordinator: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """FindCoordinator request, versions 0-6."""

    API: ClassVar[Api] = Api(10, 0, 6, flexible=3)
    key: Annotated[str, STR.between(0, 3)] = ""
    key_type: Annotated[int, I8.since(1)] = 0
    coordinator_keys: Annotated[Sequence[str], array(STR).since(4)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponseCoordinator:
    """One entry of ``coordinators``."""

    key: Annotated[str, STR] = ""
    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """FindCoordinator response, versions 0-6."""

    API: ClassVar[Api] = Api(10, 0, 6, flexible=3)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16.between(0, 3)] = 0
    error_message: Annotated[str | None, STR.nullable().between(1, 3).ignorable()] = ""
    node_id: Annotated[int, I32.between(0, 3)] = 0
    host: Annotated[str, STR.between(0, 3)] = ""
    port: Annotated[int, I32.between(0, 3)] = 0
    coordinators: Annotated[
        Sequence[FindCoordinatorResponseCoordinator], array(FindCoordinatorResponseCoordinator).since(4)
    ] = ()
