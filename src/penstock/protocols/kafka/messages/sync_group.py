"""SyncGroup: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BYTES, I16, I32, STR, Api, array
from penstock.seams import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """One entry of ``assignments``."""

    member_id: Annotated[str, STR] = ""
    assignment: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    """SyncGroup request, versions 0-5."""

    API: ClassVar[Api] = Api(14, 0, 5, flexible=4)
    group_id: Annotated[str, STR] = ""
    generation_id: Annotated[int, I32] = 0
    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3)] = None
    protocol_type: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    protocol_name: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    assignments: Annotated[Sequence[SyncGroupRequestAssignment], array(SyncGroupRequestAssignment)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """SyncGroup response, versions 0-5."""

    API: ClassVar[Api] = Api(14, 0, 5, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    protocol_type: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    protocol_name: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    assignment: Annotated[Buffer, BYTES] = b""
