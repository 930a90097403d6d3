"""Heartbeat: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """Heartbeat request, versions 0-4."""

    API: ClassVar[Api] = Api(12, 0, 4, flexible=4)
    group_id: Annotated[str, STR] = ""
    generation_id: Annotated[int, I32] = 0
    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """Heartbeat response, versions 0-4."""

    API: ClassVar[Api] = Api(12, 0, 4, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
