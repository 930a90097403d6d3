"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: wire messages to and from the coordinator's own requests.

Source: Kafka protocol, JoinGroup v0-v9, SyncGroup v0-v5, Heartbeat v0-v4, LeaveGroup v0-v5.
"""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.protocols.kafka.coordinator import Join, JoinAnswer, Leaver, Sync, SyncAnswer
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.seams.runtime import Promise

__all__ = ["heartbeat", "join_group", "leave_group", "sync_group"]

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBER_ID_FIRST_SINCE = 4
_PROTOCOL_MAY_BE_NULL = 7
_SKIP_ASSIGNMENT_SINCE = 9
_NAMES_SINCE = 5
_MANY_LEAVERS_SINCE = 3
_LONGEST_REASON = 255
_MOST_PROTOCOLS = 2_000
"""That a member may offer; consumers have one an assignor."""
_MANY = 1_000
"""Leavers that go in one rebalance, and assignments that only a leader may bring."""


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Serve JoinGroup; waits for the group's other members."""
    if len(request.protocols) > _MOST_PROTOCOLS:
        return _joined(call, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
    promise: Promise[JoinAnswer] = call.shared.services.runtime.promise()
    join = Join(
        group=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=call.line.host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=max(
            0,
            request.rebalance_timeout_ms if call.version >= _REBALANCE_TIMEOUT_SINCE else request.session_timeout_ms,
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        reply=promise.set,
        needs_member_id=call.version >= _MEMBER_ID_FIRST_SINCE,
        may_skip_assignment=call.version >= _SKIP_ASSIGNMENT_SINCE,
        reason=_said(request.reason),
    )
    answer = await call.shared.groups.join(join)
    if answer is None:
        answer = await promise
    return _joined(call, answer)


def _said(reason: str | None) -> str:
    """What a member gives as its reason, as far as it is kept."""
    return (reason or "")[:_LONGEST_REASON]


def _joined(call: Call, answer: JoinAnswer) -> JoinGroupResponse:
    name = answer.protocol_name
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name="" if name is None and call.version < _PROTOCOL_MAY_BE_NULL else name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in answer.members
        ],
    )


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Serve SyncGroup; waits for the leader's assignment."""
    if call.version >= _NAMES_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    leads = call.shared.groups.leads(request.group_id, request.member_id)
    if len(request.assignments) > _MANY and not leads:  # no consumer does that
        return SyncGroupResponse(error_code=ErrorCode.INVALID_REQUEST)
    promise: Promise[SyncAnswer] = call.shared.services.runtime.promise()
    sync = Sync(
        group=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        # Only a leader's are read; others' would be kept while they wait.
        assignments={each.member_id: bytes(each.assignment) for each in request.assignments} if leads else {},
        reply=promise.set,
    )
    call.shared.groups.sync(sync)
    answer = await promise
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


async def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Serve Heartbeat."""
    code = call.shared.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=code)


async def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Serve LeaveGroup; before v3 its one member's error is the answer's own."""
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    groups = call.shared.groups
    if call.version >= _MANY_LEAVERS_SINCE:
        leavers = [Leaver(each.member_id, each.group_instance_id, _said(each.reason)) for each in request.members]
    else:
        leavers = [Leaver(request.member_id)]
    codes: list[ErrorCode] = []
    try:
        for at in range(0, len(leavers), _MANY):
            await call.pace.spend(min(_MANY, len(leavers) - at) if at else 0)
            codes += await groups.leave(request.group_id, leavers[at : at + _MANY])
    except PenstockError:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if call.version < _MANY_LEAVERS_SINCE:
        return LeaveGroupResponse(error_code=codes[0])
    members = [
        LeaveGroupResponseMember(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=code)
        for leaver, code in zip(leavers, codes, strict=True)
    ]
    return LeaveGroupResponse(members=members)
