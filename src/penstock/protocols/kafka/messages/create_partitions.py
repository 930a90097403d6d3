"""CreatePartitions: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequestAssignment:
    """One entry of ``assignments``."""

    broker_ids: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    count: Annotated[int, I32] = 0
    assignments: Annotated[
        Sequence[CreatePartitionsRequestAssignment] | None, array(CreatePartitionsRequestAssignment).nullable()
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest:
    """CreatePartitions request, versions 0-3."""

    API: ClassVar[Api] = Api(37, 0, 3, flexible=2)
    topics: Annotated[Sequence[CreatePartitionsRequestTopic], array(CreatePartitionsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 0
    validate_only: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponseResult:
    """One entry of ``results``."""

    name: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse:
    """CreatePartitions response, versions 0-3."""

    API: ClassVar[Api] = Api(37, 0, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[CreatePartitionsResponseResult], array(CreatePartitionsResponseResult)] = ()
