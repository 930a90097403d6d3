"""LeaveGroup: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequestMember:
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable()] = None
    reason: Annotated[str | None, STR.nullable().since(5).ignorable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """LeaveGroup request, versions 0-5."""

    API: ClassVar[Api] = Api(13, 0, 5, flexible=4)
    group_id: Annotated[str, STR] = ""
    member_id: Annotated[str, STR.between(0, 2)] = ""
    members: Annotated[Sequence[LeaveGroupRequestMember], array(LeaveGroupRequestMember).since(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponseMember:
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable()] = ""
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """LeaveGroup response, versions 0-5."""

    API: ClassVar[Api] = Api(13, 0, 5, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    members: Annotated[Sequence[LeaveGroupResponseMember], array(LeaveGroupResponseMember).since(3)] = ()
