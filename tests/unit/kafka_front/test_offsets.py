"""Committed offsets over the wire messages: who may commit, what is fetched, what is deleted."""

from typing import Any

import pytest

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.coordinator_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from penstock.protocols.kafka.wire.topics import DeleteTopicsRequest
from tests.unit.kafka_front.group_kit import commit, committed, member
from tests.unit.kafka_front.kit import Kit, run


@pytest.mark.parametrize("version", range(2, 10))
def test_a_member_commits_and_anybody_reads_it(version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        joined = await member(kit)
        identity = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
        assert await commit(kit, 7, version=version, metadata="note", **identity) == 0
        assert await committed(kit) == (7, "note", 3 if version >= 6 else -1)

    run(test)


def test_commits_are_refused_partition_by_partition() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert await commit(kit, 7, topic="missing") == 3
        assert await commit(kit, 7, partition=1) == 3
        assert await commit(kit, 7, metadata="x" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await commit(kit, 7, metadata=None) == 0
        assert await committed(kit) == (7, "", 3)

    run(test)


def test_only_members_of_the_present_generation_commit() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        joined = await member(kit)
        me = {"member_id": joined.member_id}
        assert await commit(kit, 7) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(kit, 7, generation_id_or_member_epoch=0, **me) == ErrorCode.ILLEGAL_GENERATION
        assert await commit(kit, 7, generation_id_or_member_epoch=1, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(kit, 7, group_id="no", generation_id_or_member_epoch=1) == ErrorCode.ILLEGAL_GENERATION
        assert (
            await commit(kit, 7, group_id="no", generation_id_or_member_epoch=1, version=9)
            == ErrorCode.GROUP_ID_NOT_FOUND
        )
        assert (await committed(kit))[0] == -1
        assert await commit(kit, 7, group_id="") == 0

    run(test)


def test_what_was_never_committed_is_minus_one_without_an_error() -> None:
    async def test(kit: Kit) -> None:
        assert await committed(kit, group="nobody", partition=9) == (-1, "", -1)
        everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="nobody", topics=None)])
        assert len((await kit.ask(everything, 8)).groups[0].topics) == 0

    run(test)


@pytest.mark.parametrize("version", range(1, 10))
def test_all_offsets_are_fetched_in_every_version(version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        await commit(kit, 5)
        await commit(kit, 6, partition=1)
        if version >= 8:
            groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
            found = (await kit.ask(OffsetFetchRequest(groups=groups), version)).groups[0].topics
        else:
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])] if version < 2 else None
            found = (await kit.ask(OffsetFetchRequest(group_id="g", topics=topics), version)).topics
        assert [(topic.name, [part.committed_offset for part in topic.partitions]) for topic in found] == [
            ("t", [5, 6])
        ]

    run(test)


async def delete_offsets(kit: Kit, *partitions: int, topic: str = "t", group: str = "g") -> Any:
    parts = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
    request = OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts)])
    return await kit.ask(request, 0)


def test_offsets_of_topics_that_nobody_reads_can_be_deleted() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        kit.store.create_topic("u", 1)
        await commit(kit, 7)
        await commit(kit, 7, topic="u")
        await member(kit)
        assert (await delete_offsets(kit, 0)).topics[0].partitions[0].error_code == 86
        assert (await delete_offsets(kit, 0, topic="u")).topics[0].partitions[0].error_code == 0
        assert (await delete_offsets(kit, 9, topic="u")).topics[0].partitions[0].error_code == 3
        assert (await delete_offsets(kit, 0, group="no")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert [partition.topic for partition in (await kit.offsets.committed("g"))] == ["t"]

    run(test)


def test_a_deleted_topics_offsets_go_with_it() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await commit(kit, 7)
        await kit.ask(DeleteTopicsRequest(topic_names=["t"]), 5)
        assert await committed(kit) == (-1, "", -1)

    run(test)
