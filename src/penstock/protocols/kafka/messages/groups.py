"""Membership of a group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import BOOL, BYTES, I16, I32, STR, Api, array
from penstock.seams import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """One entry of ``protocols``."""

    name: Annotated[str, STR] = ""
    metadata: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """JoinGroup request, versions 0-9."""

    API: ClassVar[Api] = Api(11, 0, 9, flexible=6)
    group_id: Annotated[str, STR] = ""
    session_timeout_ms: Annotated[int, I32] = 0
    rebalance_timeout_ms: Annotated[int, I32.since(1).ignorable()] = -1
    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(5)] = None
    protocol_type: Annotated[str, STR] = ""
    protocols: Annotated[Sequence[JoinGroupRequestProtocol], array(JoinGroupRequestProtocol)] = ()
    reason: Annotated[str | None, STR.nullable().since(8).ignorable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    metadata: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """JoinGroup response, versions 0-9."""

    API: ClassVar[Api] = Api(11, 0, 9, flexible=6)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    generation_id: Annotated[int, I32] = -1
    protocol_type: Annotated[str | None, STR.nullable().since(7).ignorable()] = None
    protocol_name: Annotated[str | None, STR.nullable(7)] = ""
    leader: Annotated[str, STR] = ""
    skip_assignment: Annotated[bool, BOOL.since(9)] = False
    member_id: Annotated[str, STR] = ""
    members: Annotated[Sequence[JoinGroupResponseMember], array(JoinGroupResponseMember)] = ()


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
