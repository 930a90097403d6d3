"""Groups of the newer protocol at the front: heartbeats and what else is asked, restarts, and a log that refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.protocols.kafka.config import MigrationPolicy
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.consumer_group import ConsumerGroupSettings
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire import coordinator_admin
from penstock.protocols.kafka.wire.configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest, ListGroupsRequest
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
)
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from penstock.protocols.kafka.wire.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.store import open_store
from tests.unit.kafka_front.group_kit import commit, committed, join
from tests.unit.kafka_front.kit import Kit, run, serving


async def beat(kit: Kit, version: int = 1, **given: Any) -> Any:
    return await kit.ask(ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "a", **given}), version)


async def come(kit: Kit, version: int = 1, **given: Any) -> Any:
    wanted = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return await beat(kit, version, **{**wanted, **given})


async def described(kit: Kit, group: str = "g") -> Any:
    return (await kit.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)).groups[0]


def test_a_member_comes_commits_and_goes() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        came = await come(kit)
        assert (came.error_code, came.member_epoch, came.heartbeat_interval_ms) == (0, 2, 5_000)
        (given,) = came.assignment.topic_partitions
        assert [*given.partitions] == [*range(len(given.partitions))] != []
        owned = [ConsumerGroupHeartbeatRequestTopicPartition(topic_id=given.topic_id, partitions=given.partitions)]
        assert (await beat(kit, member_epoch=2, topic_partitions=owned)).assignment is None
        assert await commit(kit, 5, version=9, member_id="a", generation_id_or_member_epoch=2) == 0
        assert await commit(kit, 6, version=9, member_id="a", generation_id_or_member_epoch=3) == 113
        assert (await committed(kit))[0] == 5
        listed = (await kit.ask(ListGroupsRequest(types_filter=["Consumer"]), 5)).groups
        assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [("g", "Stable", "consumer")]
        assert (await kit.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0].error_code == 68
        assert (await beat(kit, member_epoch=-1)).member_epoch == -1
        assert (await described(kit)).group_state == "Empty"
        assert (await kit.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0].error_code == 0
        assert (await committed(kit))[0] == -1
        assert (await described(kit)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(test)


def test_who_has_no_id_is_given_one_in_the_first_version() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        first, second = [await come(kit, 0, member_id="") for _ in range(2)]
        assert first.member_id != second.member_id
        assert len(first.member_id) == 22
        assert (await come(kit, 1, member_id="")).error_code == ErrorCode.INVALID_REQUEST

    run(test)


def test_clients_are_told_of_it() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        asked = ApiVersionsRequest(client_software_name="me", client_software_version="1")
        told = await kit.ask(asked, 4)
        assert {each.api_key: each.max_version for each in told.api_keys}.items() >= {68: 1, 69: 1}.items()
        levels = {each.name: each.max_version_level for each in told.finalized_features}
        assert levels["group.version"] == 1

    run(test)


def test_its_account_is_told_as_that_of_an_older_group() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        await come(kit)
        resource = DescribeConfigsRequestResource(
            resource_type=32, resource_name="g", configuration_keys=[coordinator_admin.REBALANCES_OPTION]
        )
        (result,) = (await kit.ask(DescribeConfigsRequest(resources=[resource]), 4)).results
        (rebalance,) = coordinator_admin.read_rebalances(result.configs[0].value)
        assert (rebalance.generation, rebalance.members, rebalance.protocol) == (2, 1, "uniform")

    run(test)


def test_a_group_without_members_becomes_one_of_the_other_protocol_and_keeps_its_offsets() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        assert await commit(kit, 7) == 0
        assert (await come(kit)).error_code == 0
        assert (await join(kit)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await beat(kit, member_epoch=-1)
        assert (await join(kit)).error_code == 0
        refused = await come(kit)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "online upgrade is disabled" in refused.error_message
        assert (await committed(kit))[0] == 7

    run(test, KafkaFrontOptions(newer_groups=ConsumerGroupSettings(migration_policy=MigrationPolicy.DISABLED)))


def test_offsets_are_not_told_in_an_epoch_that_is_not_the_members() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        await come(kit)
        for epoch, code in ((2, 0), (1, 113)):
            group = OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=epoch, topics=None)
            assert (await kit.ask(OffsetFetchRequest(groups=[group]), 9)).groups[0].error_code == code

    run(test)


@pytest.mark.parametrize("times", [1, 2])
def test_a_heartbeat_is_answered_when_the_log_has_it_and_not_before(times: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        keeper: Any = kit.front._shared.groups.newer
        journal, left = keeper._log._journal, times

        class Refusing:
            async def append(self, place: int, compose: Any) -> Any:
                nonlocal left
                if left:
                    left -= 1
                    compose()
                    raise StoreError("no room")
                return await journal.append(place, compose)

        keeper._log._journal = Refusing()
        for _ in range(times):
            assert (await come(kit)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await come(kit)).member_epoch == 2
        keeper._log._journal = journal
        assert not keeper.coordinator.has_changes("g")

    run(test)


def test_a_member_that_is_not_heard_of_is_gone() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3)
        await come(kit)
        async with asyncio.timeout(5):
            while (await described(kit)).group_state != "Empty":
                await kit.runtime.sleep(0.005)

    run(test, KafkaFrontOptions(newer_groups=ConsumerGroupSettings(session_timeout_ms=50)))


def test_a_group_survives_a_restart_in_the_same_epochs() -> None:
    async def test() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            kit.store.create_topic("t", 3)
            await commit(kit, 3)  # it was an older group once
            await come(kit)
            await come(kit, member_id="b")
            await beat(kit, member_epoch=2)
            before = await described(kit)
        async with serving(store=store) as kit:
            assert in_order(await described(kit)) == in_order(before)
            assert before.group_state == "Reconciling"
            owned = [ConsumerGroupHeartbeatRequestTopicPartition(topic_id=topic_id(before), partitions=[0, 1])]
            assert (await beat(kit, member_epoch=2, topic_partitions=owned)).member_epoch == 3
            given = (await beat(kit, member_id="b", member_epoch=3)).assignment.topic_partitions
            assert [[*each.partitions] for each in given] == [[2]]
            assert (await committed(kit))[0] == 3
            for name in ("a", "b"):
                await beat(kit, member_id=name, member_epoch=-1)
            await kit.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        async with serving(store=store) as kit:
            assert (await described(kit)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert not (await kit.ask(ListGroupsRequest(), 5)).groups
        store.close()

    asyncio.run(test())


def in_order(group: Any) -> Any:
    return replace(group, members=sorted(group.members, key=lambda each: str(each.member_id)))


def topic_id(group: Any) -> bytes:
    found: bytes = group.members[0].assignment.topic_partitions[0].topic_id
    return found
