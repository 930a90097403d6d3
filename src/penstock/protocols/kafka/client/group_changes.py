"""What operators change about groups, by each group's coordinator: deleted, their offsets deleted, members thrown out.

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
    """Delete a group without members, its offsets too. Raises ServerError (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
    what = f"deleting group {coordinator.key!r} failed"

    async def ask() -> None:
        message = DeleteGroupsRequest(groups_names=[coordinator.key])
        result = only((await coordinator.call(message, DeleteGroupsResponse)).results, what)
        if result.error_code != NONE:
            raise error_for(result.error_code, what, detail=result.error_message)

    await coordinator.persist(ask)


async def delete_offsets(coordinator: Coordinator, partitions: Collection[Partition]) -> None:
    """Forget where the group stands; not in topics that its members read (GROUP_SUBSCRIBED_TO_TOPIC).

    Those that can be deleted are, whatever comes of the others.
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
    """Throw static members out. Raises ServerError for the first that is not there; the others are gone."""
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
    """Throw out who is there. Raises ServerError for the first who stays; one who has left by then is no error."""
    described = await describe_group(coordinator.cluster, coordinator.key)
    leaving = [
        # A static member is asked for by its name alone, so that one that was replaced meanwhile goes, too.
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
    """Ask for all of them at once; those whom the coordinator says it does not know."""
    what = f"removing members of group {coordinator.key!r} failed"

    def build(version: int) -> LeaveGroupRequest:
        if version < _FIRST_WITH_MEMBERS:
            raise error_for(_UNSUPPORTED_VERSION, what, detail="brokers before 2.4 let nobody but members leave")
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
    """Raises ServerError for a member who is there all the same: brokers of 3.x do not know members of newer groups
    when it comes to leaving, those of 4.x do (both as seen on the wire)."""
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
