"""FindCoordinator, DescribeGroups, ListGroups, DeleteGroups.

Source: Kafka protocol, FindCoordinator v0-v6 (KIP-699), DescribeGroups v0-v6 (KIP-1043), ListGroups v0-v5 (KIP-518,
KIP-848), DeleteGroups v0-v3.
"""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.protocols.kafka.coordinator import Group, Member, State
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.operations import GROUP_OPERATIONS, shown
from penstock.protocols.kafka.messages.commits import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from penstock.protocols.kafka.messages.group_admin import (
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

__all__ = ["delete_groups", "describe_groups", "find_coordinator", "list_groups"]

_GROUP, _TRANSACTION = 0, 1
_MANY_KEYS_SINCE = 4
_NOT_FOUND_SINCE = 6
_CLASSIC = "classic"
_STEPS_TO_DELETE = 20
_NO_GROUPS = (
    "the log behind this node keeps no groups: start the node with --journals file:DIRECTORY, where they go then"
)
_CONSUMER = "consumer"
"""Of groups of KIP-848 both the protocol type and the type of the group."""


async def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Serve FindCoordinator: this node, for groups and, so that InitProducerId can refuse them, for transactions."""
    shared = call.shared
    code = ErrorCode.NONE if request.key_type in (_GROUP, _TRANSACTION) else ErrorCode.INVALID_REQUEST
    node = -1 if code else shared.node_id
    host, port = ("", -1) if code else (shared.advertised.host, shared.advertised.port)
    many = call.version >= _MANY_KEYS_SINCE
    message = "" if many else ErrorCode.NONE.name  # as a real broker says that nothing is wrong
    if code:
        message = f"coordinators of type {request.key_type} are unknown"
    elif request.key_type == _GROUP and not shared.enode.abilities.groups:
        # Of all codes the one that consumers give up on, and show: others they would ask on for ever.
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
    return DescribeGroupsResponse(groups=[await _described(call, name, operations) for name in request.groups])


async def _described(call: Call, name: str, operations: int) -> DescribeGroupsResponseGroup:
    groups = call.shared.groups
    group = await groups.known(name)
    await call.pace.spend(1 + (len(group.members) if group else 0))
    if group is None:
        told = call.version >= _NOT_FOUND_SINCE
        what = "not found" if groups.newer.coordinator.group(name) is None else "is not a classic group"
        return DescribeGroupsResponseGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if told else ErrorCode.NONE,
            error_message=f"Group {name} {what}." if told else None,
            group_id=name,
            group_state=State.DEAD,
            authorized_operations=operations,
        )
    return DescribeGroupsResponseGroup(
        group_id=name,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is State.STABLE else "",
        members=[_member(group, member) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(group: Group, member: Member) -> DescribeGroupsResponseMember:
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
    """Serve DeleteGroups: durable when answered."""
    results = []
    for name in dict.fromkeys(request.groups_names):
        await call.pace.spend(1, _STEPS_TO_DELETE)
        try:
            code = await call.shared.groups.delete(name)
        except PenstockError:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        results.append(DeleteGroupsResponseResult(group_id=name, error_code=code))
    return DeleteGroupsResponse(results=results)
