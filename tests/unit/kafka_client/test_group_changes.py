"""Members that are thrown out: what old brokers cannot, what newer groups allow, and answers that say too little."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.errors import ErrorKind, ProtocolViolation, ServerError
from penstock.model import Partition
from penstock.protocols.kafka.wire.coordinator_admin import (
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocols.kafka.wire.groups import LeaveGroupResponse, LeaveGroupResponseMember
from tests.unit.kafka_client.scripted import Stage, go, stage
from tests.unit.kafka_client.scripted_coordinator import QUICK, Coordinator

GROUP = "group"


def there(it: Stage, *members: tuple[str, str | None]) -> None:
    """Who is in the group: member id, instance id."""
    told = [DescribeGroupsResponseMember(member_id=name, group_instance_id=instance) for name, instance in members]
    it.broker.answers["DescribeGroups"] = lambda request, version: DescribeGroupsResponse(
        groups=[DescribeGroupsResponseGroup(group_id=GROUP, group_state="Stable", members=told)]
    )


def leaving(it: Stage, codes: Sequence[int], *, short: int = 0) -> None:
    it.broker.answers["LeaveGroup"] = lambda request, version: LeaveGroupResponse(
        members=[
            LeaveGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
            for each, code in list(zip(request.members, codes, strict=True))[short:]
        ]
    )


def test_all_are_asked_to_go_at_once_and_static_ones_by_name() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            there(it, ("a", None), ("b", "one"))
            leaving(it, [0, 0])
            await it.client.admin().remove_all_members(GROUP, reason="x" * 1_000)
            (request,) = it.broker.asked("LeaveGroup")
            assert [(each.member_id, each.group_instance_id) for each in request.members] == [("a", None), ("", "one")]
            assert {len(each.reason) for each in request.members} == {255}

    go(body())


def test_one_who_has_left_by_then_is_no_error_and_one_who_stays_is() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            there(it, ("a", None), ("b", "one"))
            leaving(it, [25, 0])
            with pytest.raises(ServerError, match="does not remove 'a'") as raised:
                await it.client.admin().remove_all_members(GROUP, reason="")
            assert raised.value.kind is ErrorKind.UNSUPPORTED
            leaving(it, [25])
            with pytest.raises(ServerError, match="no member 'two'"):
                await it.client.admin().remove_members(GROUP, ["two"], reason="")

    go(body())


def test_a_group_of_nobody_is_asked_nothing() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            there(it)
            await it.client.admin().remove_all_members(GROUP, reason="")
            await it.client.admin().delete_offsets(GROUP, [])
            assert not it.broker.asked("LeaveGroup")

    go(body())


def test_an_answer_that_leaves_somebody_out_is_no_answer() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            leaving(it, [0, 0], short=1)
            with pytest.raises(ProtocolViolation, match="1 answers to 2 questions"):
                await it.client.admin().remove_members(GROUP, ["one", "two"], reason="")

    go(body())


def test_offsets_that_members_read_are_named() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            it.broker.answers["OffsetDelete"] = lambda request, version: OffsetDeleteResponse(
                topics=[
                    OffsetDeleteResponseTopic(
                        name="events", partitions=[OffsetDeleteResponsePartition(partition_index=1, error_code=86)]
                    )
                ]
            )
            with pytest.raises(ServerError, match="GROUP_SUBSCRIBED_TO_TOPIC") as raised:
                await it.client.admin().delete_offsets(GROUP, [Partition("events", 1)])
            assert (raised.value.topic, raised.value.partition) == ("events", 1)

    go(body())
