"""APIs of groups, classic and KIP-848: requests of members and of operators."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterable

from penstock.concurrency.runtime import Promise, retry_while_unreachable
from penstock.errors import PenstockError
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import (
    Group,
    Join,
    JoinAnswer,
    Leaver,
    Member,
    State,
    Sync,
    SyncAnswer,
)
from penstock.protocols.kafka.groups.consumer_group import (
    JOIN,
    Beat,
    BeatAnswer,
    ConsumerGroup,
    ConsumerMember,
    Place,
    assignor_of,
)
from penstock.protocols.kafka.server.apis.metadata import GROUP_OPERATIONS, shown
from penstock.protocols.kafka.server.front import Call
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTargetAssignment,
    ConsumerGroupDescribeResponseTopicPartition,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartition,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

__all__ = [
    "consumer_group_heartbeat",
    "delete_groups",
    "describe_consumer_groups",
    "describe_groups",
    "find_coordinator",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "share_heartbeat",
    "sync_group",
]

# JoinGroup, SyncGroup, Heartbeat, LeaveGroup: translates messages to and from the coordinator's requests.
#
# Source: Kafka protocol, JoinGroup v0-v9, SyncGroup v0-v5, Heartbeat v0-v4, LeaveGroup v0-v5.

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBER_ID_FIRST_SINCE = 4
_PROTOCOL_MAY_BE_NULL = 7
_SKIP_ASSIGNMENT_SINCE = 9
_NAMES_SINCE = 5
_MANY_LEAVERS_SINCE = 3
_LONGEST_REASON = 255
_MOST_PROTOCOLS = 2_000
"""The most protocols of a member; consumers have one per assignor."""
_MANY = 1_000
"""The most leavers in one rebalance, and the most assignments from a member that is not the leader."""


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
        client_host=call.connection.host,
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
    """A member's reason, cut to the length that is kept."""
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
    if len(request.assignments) > _MANY and not leads:  # no consumer sends this
        return SyncGroupResponse(error_code=ErrorCode.INVALID_REQUEST)
    promise: Promise[SyncAnswer] = call.shared.services.runtime.promise()
    sync = Sync(
        group=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        # Only the leader's assignments are used; others would occupy memory while the request waits.
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
    """Serve LeaveGroup; before v3 the error of its one member is that of the response."""
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


# ConsumerGroupHeartbeat, ConsumerGroupDescribe: KIP-848 groups; share groups are refused.
#
# Source: Kafka protocol, ConsumerGroupHeartbeat v0-v1, ConsumerGroupDescribe v0-v1 (KIP-1099), ShareGroupHeartbeat v1
# (KIP-932).

_OWN_IDS_SINCE = 1
_SPEAKS_OLDER, _SPEAKS_NEWER = range(2)


async def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Serve ConsumerGroupHeartbeat: the decision is durable before the response."""
    answer = await call.shared.groups.newer.beat(_beat(call, request))
    return ConsumerGroupHeartbeatResponse(
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=_assignment(answer),
    )


async def share_heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Refuse a share consumer, as a broker whose feature ``share.version`` is off: the consumer fails.

    If the API were not advertised, share consumers would poll for ever without records.
    """
    error = Refused(
        ErrorCode.UNSUPPORTED_VERSION,
        "this node has no share groups (KIP-932)",
        hint="use an ordinary consumer group",
    )
    return ShareGroupHeartbeatResponse(error_code=code_of(error), error_message=error.message)


def _beat(call: Call, request: ConsumerGroupHeartbeatRequest) -> Beat:
    owns = request.topic_partitions
    member_id = request.member_id
    if not member_id and request.member_epoch == JOIN and call.version < _OWN_IDS_SINCE:
        random = call.shared.services.runtime.random_bytes(16)
        member_id = base64.urlsafe_b64encode(random).rstrip(b"=").decode()
    return Beat(
        group=request.group_id,
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        names=None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owns is None else frozenset((bytes(it.topic_id), each) for it in owns for each in it.partitions),
        client_id=call.client_id,
        client_host=call.connection.host,
    )


def _assignment(answer: BeatAnswer) -> ConsumerGroupHeartbeatResponseAssignment | None:
    if answer.assigned is None:
        return None
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartition(topic_id=topic, partitions=numbers)
            for topic, numbers in _by_topic(answer.assigned).items()
        ]
    )


def _by_topic(places: Iterable[Place]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return found


async def describe_consumer_groups(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Serve ConsumerGroupDescribe."""
    operations = shown(GROUP_OPERATIONS, request.include_authorized_operations)
    return ConsumerGroupDescribeResponse(
        groups=[await _described_consumer_group(call, name, operations) for name in request.group_ids]
    )


async def _described_consumer_group(call: Call, name: str, operations: int) -> ConsumerGroupDescribeResponseGroup:
    try:
        group = call.shared.groups.newer.coordinator.group(name)
        await call.pace.spend(1 + (len(group.members) if group else 0), 1 + (10 * len(group.members) if group else 0))
        names = await _names(call, group) if group is not None else {}
        # Looked up again: the lookup of names may have waited for another node.
        group = call.shared.groups.newer.coordinator.group(name)
        known = group is not None or (name and await call.shared.groups.known(name) is not None)
    except PenstockError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ConsumerGroupDescribeResponseGroup(error_code=code, error_message=str(error), group_id=name)
    if group is None:
        return _missing(name, known=bool(known))
    return ConsumerGroupDescribeResponseGroup(
        group_id=name,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor_of(group),
        members=[_described_consumer_member(each, names) for each in group.members.values()],
        authorized_operations=operations,
    )


def _missing(name: str, *, known: bool) -> ConsumerGroupDescribeResponseGroup:
    if not name:
        return ConsumerGroupDescribeResponseGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=name)
    text = f"Group {name} is not a consumer group." if known else f"Group {name} not found."
    return ConsumerGroupDescribeResponseGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text, group_id=name
    )


async def _names(call: Call, group: ConsumerGroup) -> dict[bytes, str]:
    """The names of topics that members have or are to have; without topics that no longer exist."""
    members = list(group.members.values())
    topics = {topic for each in members for topic, _ in (*each.owned, *each.target)}
    shared = call.shared
    found = [
        # Retried while the log behind is unreachable: a topic that is left out would look deleted.
        await retry_while_unreachable(shared.services.runtime, functools.partial(shared.enode.topic_by_id, each))
        for each in sorted(topics)
    ]
    return {topic.id: topic.name for topic in found if topic is not None}


def _described_consumer_member(member: ConsumerMember, names: dict[bytes, str]) -> ConsumerGroupDescribeResponseMember:
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.names,
        subscribed_topic_regex=member.pattern,
        assignment=ConsumerGroupDescribeResponseAssignment(topic_partitions=_partitions(member.owned, names)),
        target_assignment=ConsumerGroupDescribeResponseTargetAssignment(
            topic_partitions=_partitions(member.target, names)
        ),
        member_type=_SPEAKS_NEWER if member.older is None else _SPEAKS_OLDER,
    )


def _partitions(places: Iterable[Place], names: dict[bytes, str]) -> list[ConsumerGroupDescribeResponseTopicPartition]:
    return [
        ConsumerGroupDescribeResponseTopicPartition(topic_id=topic, topic_name=names[topic], partitions=numbers)
        for topic, numbers in _by_topic(places).items()
        if topic in names
    ]


# FindCoordinator, DescribeGroups, ListGroups, DeleteGroups.
#
# Source: Kafka protocol, FindCoordinator v0-v6 (KIP-699), DescribeGroups v0-v6 (KIP-1043), ListGroups v0-v5 (KIP-518,
# KIP-848), DeleteGroups v0-v3.

_GROUP, _TRANSACTION = 0, 1
_MANY_KEYS_SINCE = 4
_NOT_FOUND_SINCE = 6
_CLASSIC = "classic"
_STEPS_TO_DELETE = 20
_NO_GROUPS = (
    "the log behind this node keeps no groups: start the node with --journals file:DIRECTORY, where they go then"
)
_CONSUMER = "consumer"
"""For KIP-848 groups both the protocol type and the type of the group."""


async def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Serve FindCoordinator: this node, for groups and for transactional ids (whose InitProducerId may be refused)."""
    shared = call.shared
    code = ErrorCode.NONE if request.key_type in (_GROUP, _TRANSACTION) else ErrorCode.INVALID_REQUEST
    node = -1 if code else shared.node_id
    host, port = ("", -1) if code else (shared.advertised.host, shared.advertised.port)
    many = call.version >= _MANY_KEYS_SINCE
    message = "" if many else ErrorCode.NONE.name  # a real broker's text for no error
    if code:
        message = f"coordinators of type {request.key_type} are unknown"
    elif request.key_type == _GROUP and not shared.enode.abilities.groups:
        # Consumers give up on this code and show it; with other codes they would retry for ever.
        code, message = ErrorCode.GROUP_AUTHORIZATION_FAILED, _NO_GROUPS
    if not many:
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=node, host=host, port=port)
    found = []
    for key in request.coordinator_keys:
        await call.pace.spend()
        found.append(
            FindCoordinatorResponseCoordinator(
                key=key, node_id=node, host=host, port=port, error_code=code, error_message=message
            )
        )
    return FindCoordinatorResponse(coordinators=found)


async def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Serve DescribeGroups; a group that does not exist is Dead, and from v6 on also an error."""
    operations = shown(GROUP_OPERATIONS, request.include_authorized_operations)
    return DescribeGroupsResponse(groups=[await _described_group(call, name, operations) for name in request.groups])


async def _described_group(call: Call, name: str, operations: int) -> DescribeGroupsResponseGroup:
    groups = call.shared.groups
    group = await groups.known(name)
    await call.pace.spend(1 + (len(group.members) if group else 0))
    if group is None:
        reports = call.version >= _NOT_FOUND_SINCE
        what = "not found" if groups.newer.coordinator.group(name) is None else "is not a classic group"
        return DescribeGroupsResponseGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if reports else ErrorCode.NONE,
            error_message=f"Group {name} {what}." if reports else None,
            group_id=name,
            group_state=State.DEAD,
            authorized_operations=operations,
        )
    return DescribeGroupsResponseGroup(
        group_id=name,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is State.STABLE else "",
        members=[_described_member(group, member) for member in group.members.values()],
        authorized_operations=operations,
    )


def _described_member(group: Group, member: Member) -> DescribeGroupsResponseMember:
    return DescribeGroupsResponseMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if group.state is State.STABLE else b"",
        member_assignment=member.assignment,
    )


async def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Serve ListGroups; filters by state and type are case-insensitive."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [*await _classic(call), *await _newer(call)]
    wanted = [
        each
        for each in groups
        if (not types or each.group_type in types) and (not states or each.group_state.lower() in states)
    ]
    return ListGroupsResponse(groups=wanted)


async def _classic(call: Call) -> list[ListGroupsResponseGroup]:
    return [
        ListGroupsResponseGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state,
            group_type=_CLASSIC,
        )
        async for group in call.pace.through(await call.shared.groups.all_known(), 0.5)
    ]


async def _newer(call: Call) -> list[ListGroupsResponseGroup]:
    return [
        ListGroupsResponseGroup(
            group_id=group.group_id, protocol_type=_CONSUMER, group_state=group.state, group_type=_CONSUMER
        )
        async for group in call.pace.through(list(call.shared.groups.newer.coordinator.groups()), 0.5)
    ]


async def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Serve DeleteGroups: the deletion is durable before the response."""
    results = []
    for name in dict.fromkeys(request.groups_names):
        await call.pace.spend(1, _STEPS_TO_DELETE)
        try:
            code = await call.shared.groups.delete(name)
        except PenstockError:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        results.append(DeleteGroupsResponseResult(group_id=name, error_code=code))
    return DeleteGroupsResponse(results=results)
