"""Groups over the wire messages: versions, parking, descriptions, and what a restart keeps."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import GroupSettings
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest, ListGroupsRequest
from penstock.protocols.kafka.wire.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
)
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest
from penstock.store import open_store
from tests.unit.kafka_front.group_kit import JOIN, METADATA, commit, committed, join, member, state, until
from tests.unit.kafka_front.kit import Kit, run, serving

# Membership.


@pytest.mark.parametrize("version", range(10))
def test_one_member_joins_in_every_version(version: int) -> None:
    async def test(kit: Kit) -> None:
        joined = await member(kit, version)
        assert (joined.generation_id, joined.leader, joined.protocol_name) == (1, joined.member_id, "range")
        assert [bytes(each.metadata) for each in joined.members] == [METADATA]
        assert joined.member_id.startswith("me-")

    run(test)


def test_a_first_join_is_told_its_member_id_and_nothing_else() -> None:
    async def test(kit: Kit) -> None:
        answer = await kit.ask(JOIN, 9)
        assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.MEMBER_ID_REQUIRED, -1, "")
        assert (answer.protocol_name, len(answer.members)) == (None, 0)
        old = await kit.ask(replace(JOIN, group_id=""), 5)
        assert (old.error_code, old.protocol_name) == (ErrorCode.INVALID_GROUP_ID, "")

    run(test)


def test_two_members_wait_for_each_other() -> None:
    async def test(kit: Kit) -> None:
        other = kit.client()
        first = await member(kit)
        second = asyncio.ensure_future(join(other))
        await until(kit, "PreparingRebalance")
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first.member_id)
        assert (await kit.client().ask(beat, 4)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        again = await join(kit, member_id=first.member_id)
        joined = await asyncio.wait_for(second, 5)
        assert (again.generation_id, joined.generation_id) == (2, 2)
        assert (again.leader, joined.leader) == (first.member_id, first.member_id)
        assert (len(again.members), len(joined.members)) == (2, 0)

    run(test)


def test_stopping_the_node_answers_whoever_waits_for_a_group() -> None:
    async def test(kit: Kit) -> None:
        await member(kit)
        waiting = asyncio.ensure_future(join(kit.client()))
        await until(kit, "PreparingRebalance")
        await kit.front.stop()
        assert (await asyncio.wait_for(waiting, 5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(test)


def test_syncing_needs_the_names_from_version_five_on() -> None:
    async def test(kit: Kit) -> None:
        joined = await join(kit)
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await kit.ask(sync, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await kit.ask(sync, 3)).error_code == 0

    run(test)


def test_leaving_is_told_to_each_or_to_the_one() -> None:
    async def test(kit: Kit) -> None:
        joined = await member(kit)
        assert (await kit.ask(LeaveGroupRequest(group_id="g", member_id="nobody"), 1)).error_code == 25
        both = [LeaveGroupRequestMember(member_id=each) for each in (joined.member_id, "nobody")]
        answer = await kit.ask(LeaveGroupRequest(group_id="g", members=both), 4)
        assert (answer.error_code, [each.error_code for each in answer.members]) == (0, [0, 25])
        missing = await kit.ask(LeaveGroupRequest(group_id="no", members=both[:1]), 4)
        assert (missing.error_code, missing.members[0].error_code) == (0, 25)
        assert (await kit.ask(LeaveGroupRequest(group_id=""), 4)).error_code == 24
        assert (await state(kit)).group_state == "Empty"

    run(test)


def test_a_static_leader_that_comes_back_skips_the_assignment() -> None:
    async def test(kit: Kit) -> None:
        first = await member(kit, group_instance_id="i")
        back = await join(kit.client(), group_instance_id="i")
        assert (back.generation_id, back.skip_assignment, back.leader) == (1, True, back.member_id)
        assert back.member_id != first.member_id
        assert len(back.members) == 1
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first.member_id, group_instance_id="i")
        assert (await kit.ask(beat, 4)).error_code == ErrorCode.FENCED_INSTANCE_ID
        old = await join(kit.client(), 8, group_instance_id="i")
        assert (old.leader, len(old.members)) == (back.member_id, 0)

    run(test)


def test_a_silent_member_is_removed_when_its_session_ends() -> None:
    async def test(kit: Kit) -> None:
        await member(kit, session_timeout_ms=20)
        await until(kit, "Empty")

    run(test, KafkaFrontOptions(groups=GroupSettings(min_session_timeout_ms=1)))


# Operators.


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_here(version: int) -> None:
    async def test(kit: Kit) -> None:
        key: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
        answer = await kit.ask(FindCoordinatorRequest(**key), version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.port) == (0, 1, 9_092)
        if version >= 1:
            share = await kit.ask(FindCoordinatorRequest(key_type=2, **key), version)
            found = share.coordinators[0] if version >= 4 else share
            assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)

    run(test)


def test_groups_are_described_as_far_as_they_are() -> None:
    async def test(kit: Kit) -> None:
        dead, told = await state(kit), await state(kit, version=6)
        assert (dead.group_state, dead.error_code) == ("Dead", 0)
        assert (told.group_state, told.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
        joined = await member(kit)
        found = await state(kit)
        assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
        (one,) = found.members
        assert (one.member_id, one.client_id, one.client_host) == (joined.member_id, "me", "/127.0.0.1")
        assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (METADATA, b"mine")

    run(test)


def test_groups_are_listed_by_state_and_type() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await member(kit)
        await commit(kit, 1, group_id="simple")
        for states, types, expected in (
            ([], [], ["g", "simple"]),
            (["stable"], [], ["g"]),
            (["Empty"], ["Classic"], ["simple"]),
            ([], ["consumer"], []),
        ):
            answer = await kit.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)
            assert sorted(each.group_id for each in answer.groups) == expected
        rows = {
            each.group_id: (each.protocol_type, each.group_state)
            for each in (await kit.ask(ListGroupsRequest(), 5)).groups
        }
        assert rows == {"g": ("consumer", "Stable"), "simple": ("", "Empty")}

    run(test)


def test_a_group_with_members_stays_and_an_empty_one_goes_with_its_offsets() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await commit(kit, 7)
        joined = await member(kit)

        async def delete() -> list[int]:
            answer = await kit.ask(DeleteGroupsRequest(groups_names=["g", "no"]), 2)
            return [each.error_code for each in answer.results]

        assert await delete() == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        await kit.ask(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=joined.member_id)]), 4)
        assert await delete() == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert await committed(kit) == (-1, "", -1)
        assert not (await kit.offsets.saved_groups())

    run(test)


# What a restart keeps.


def test_offsets_and_members_survive_a_restart() -> None:
    async def test() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            kit.store.create_topic("t", 1)
            joined = await member(kit)
            me = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
            await commit(kit, 7, **me)
            await commit(kit, 9, **me)
            await commit(kit, 5, group_id="simple")
        async with serving(store=store) as kit:
            assert await committed(kit) == (9, "", 3)
            assert await committed(kit, group="simple") == (5, "", 3)
            found = await state(kit)
            assert (found.group_state, bytes(found.members[0].member_assignment)) == ("Stable", b"mine")
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
            assert (await kit.ask(beat, 4)).error_code == 0
            same = await join(kit, member_id=joined.member_id)
            assert same.generation_id == 2  # the leader of a stable group joins to assign anew
        store.close()

    asyncio.run(test())


def test_deleted_groups_and_offsets_stay_deleted_after_a_restart() -> None:
    async def test() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            kit.store.create_topic("t", 1)
            joined = await member(kit)
            await commit(kit, 7, generation_id_or_member_epoch=1, member_id=joined.member_id)
            leaver = LeaveGroupRequestMember(member_id=joined.member_id)
            await kit.ask(LeaveGroupRequest(group_id="g", members=[leaver]), 4)
            await kit.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        async with serving(store=store) as kit:
            assert (await state(kit)).group_state == "Dead"
            assert await committed(kit) == (-1, "", -1)
        store.close()

    asyncio.run(test())


def test_the_offsets_topic_is_readable_and_not_writable() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await commit(kit, 7)
        number = kit.offsets._codec.partition_of("g", 4)
        start, end = (await extent(kit.enode, Partition("__consumer_offsets", number)))[:2]
        assert (start, end) == (0, 1)

    run(test)
