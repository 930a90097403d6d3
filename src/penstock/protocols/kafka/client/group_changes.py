"""Changes of groups, sent to each group's coordinator: delete groups and offsets, remove members.

Source: Kafka protocol guide, DeleteGroups v0-v3, OffsetDelete v0 (KIP-496), LeaveGroup v3-v5 (KIP-345, KIP-800).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from penstock.errors import ErrorKind, ProtocolViolation, ServerError
from penstock.model import Partition
from penstock.protocols.kafka.client.admin import describe_group
from penstock.protocols.kafka.client.cluster import by_topic
from penstock.protocols.kafka.client.connection import ByVersion, only
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.protocols.kafka.errors import NONE, error_for, row
from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocols.kafka.wire.groups import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

__all__ = ["delete_group", "delete_offsets", "remove_all_members", "remove_members"]

_UNKNOWN_MEMBER, _UNSUPPORTED_VERSION = 25, 35
_FIRST_WITH_MEMBERS: Final = 3
_LONGEST_REASON: Final = 255


async def delete_group(coordinator: Coordinator) -> None:
    """Delete a group without members, and its offsets. Raises ServerError (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
    what = f"deleting group {coordinator.key!r} failed"

    async def ask() -> None:
        message = DeleteGroupsRequest(groups_names=[coordinator.key])
        result = only((await coordinator.call(message, DeleteGroupsResponse)).results, what)
        if result.error_code != NONE:
            raise error_for(result.error_code, what, detail=result.error_message)

    await coordinator.persist(ask)


async def delete_offsets(coordinator: Coordinator, partitions: Collection[Partition]) -> None:
    """Delete committed offsets, except in topics that the group's members read (GROUP_SUBSCRIBED_TO_TOPIC).

    Deletes all that can be deleted, even if others fail.
    """
    what = f"deleting offsets of group {coordinator.key!r} failed"
    request = OffsetDeleteRequest(
        group_id=coordinator.key,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=each.id) for each in of_topic],
            )
            for topic, of_topic in by_topic(partitions).items()
        ],
    )

    async def ask() -> None:
        answer = await coordinator.call(request, OffsetDeleteResponse)
        if answer.error_code != NONE:
            raise error_for(answer.error_code, what)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code != NONE:
                    raise error_for(each.error_code, what, topic=topic.name, partition=each.partition_index)

    if partitions:
        await coordinator.persist(ask)


async def remove_members(coordinator: Coordinator, instance_ids: Collection[str], reason: str) -> None:
    """Remove static members. Raises ServerError for the first unknown one; the others are removed."""
    leaving = [LeaveGroupRequestMember(group_instance_id=each, reason=_short(reason)) for each in instance_ids]
    for unknown in await _leave(coordinator, leaving):
        await _check_gone(coordinator, unknown)
        raise ServerError(
            f"group {coordinator.key!r} has no member {unknown.group_instance_id!r}",
            code=_UNKNOWN_MEMBER,
            name=row(_UNKNOWN_MEMBER).name,
            hint="`penstock groups describe --members` shows who is there, and under which instance ids",
        )


async def remove_all_members(coordinator: Coordinator, reason: str) -> None:
    """Remove all members. Raises ServerError for the first that stays; one that has left meanwhile is no error."""
    described = await describe_group(coordinator.cluster, coordinator.key)
    leaving = [
        # A static member is named by its instance id alone, so that its replacement would be removed, too.
        LeaveGroupRequestMember(
            member_id="" if each.instance_id is not None else each.member_id,
            group_instance_id=each.instance_id,
            reason=_short(reason),
        )
        for each in described.members
    ]
    for unknown in await _leave(coordinator, leaving):
        await _check_gone(coordinator, unknown)


def _short(reason: str) -> str:
    return reason[:_LONGEST_REASON]


async def _leave(
    coordinator: Coordinator, members: Sequence[LeaveGroupRequestMember]
) -> Sequence[LeaveGroupRequestMember]:
    """Remove all of them in one request; returns those that the coordinator does not know."""
    what = f"removing members of group {coordinator.key!r} failed"

    def build(version: int) -> LeaveGroupRequest:
        if version < _FIRST_WITH_MEMBERS:
            raise error_for(_UNSUPPORTED_VERSION, what, detail="before 2.4 only members themselves can leave")
        return LeaveGroupRequest(group_id=coordinator.key, members=members)

    async def ask() -> Sequence[LeaveGroupResponseMember]:
        answer = await coordinator.call(ByVersion(LeaveGroupRequest, build), LeaveGroupResponse)
        for code in (answer.error_code, *(each.error_code for each in answer.members)):
            if code not in (NONE, _UNKNOWN_MEMBER):
                raise error_for(code, what)
        if len(answer.members) != len(members):
            raise ProtocolViolation(f"{what}: {len(answer.members)} answers to {len(members)} questions")
        return answer.members

    answers = await coordinator.persist(ask) if members else ()
    return [asked for asked, said in zip(members, answers, strict=True) if said.error_code == _UNKNOWN_MEMBER]


async def _check_gone(coordinator: Coordinator, asked: LeaveGroupRequestMember) -> None:
    """Raises ServerError if an unknown member is in the group all the same.

    Brokers of 3.x do not find members of KIP-848 groups for LeaveGroup, those of 4.x do (both as seen on the wire).
    """
    described = await describe_group(coordinator.cluster, coordinator.key)
    there = {each.member_id for each in described.members} | {each.instance_id for each in described.members}
    name = asked.group_instance_id or asked.member_id
    if name in there:
        raise ServerError(
            f"this broker does not remove {name!r} from group {coordinator.key!r}, which is of the newer protocol"
            " (KIP-848); brokers of 4.x do",
            code=_UNKNOWN_MEMBER,
            name=row(_UNKNOWN_MEMBER).name,
            kind=ErrorKind.UNSUPPORTED,
            hint="Stop its process: it leaves, or is given up after group.consumer.session.timeout.ms",
        )
