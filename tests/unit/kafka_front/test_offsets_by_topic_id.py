"""Committed offsets by topic ids (OffsetCommit and OffsetFetch v10), and answers in the shape of their requests."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)
from penstock.protocols.kafka.wire.topics import DeleteTopicsRequest
from tests.unit.kafka_front.group_kit import commit, member
from tests.unit.kafka_front.kit import Kit, run

STRANGE = b"\7" * 16


async def by_id(kit: Kit, *topics: bytes) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """What is committed of partition 0 of each topic, or of all without any: (offset, code)."""
    wanted: Sequence[OffsetFetchRequestGroupTopic] | None = [
        OffsetFetchRequestGroupTopic(topic_id=each, partition_indexes=[0]) for each in topics
    ]
    message = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted or None)])
    (group,) = (await kit.ask(message, 10)).groups
    return [
        (bytes(each.topic_id), [(part.committed_offset, part.error_code) for part in each.partitions])
        for each in group.topics
    ]


def test_offsets_are_committed_and_fetched_by_topic_id() -> None:
    async def test(kit: Kit) -> None:
        topic = kit.store.create_topic("t", 1)
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        message = OffsetCommitRequest(
            group_id="g",
            topics=[OffsetCommitRequestTopic(topic_id=each, partitions=[part]) for each in (topic.id, STRANGE)],
        )
        answer = await kit.ask(message, 10)
        told = [(bytes(each.topic_id), each.partitions[0].error_code) for each in answer.topics]
        assert told == [(topic.id, 0), (STRANGE, ErrorCode.UNKNOWN_TOPIC_ID)]
        assert await by_id(kit, topic.id, STRANGE) == [
            (topic.id, [(7, 0)]),
            (STRANGE, [(-1, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ]
        assert await by_id(kit) == [(topic.id, [(7, 0)])]

    run(test)


def test_all_offsets_by_id_leave_out_topics_that_have_none_any_more() -> None:
    async def test(kit: Kit) -> None:
        gone, kept = kit.store.create_topic("t", 1), kit.store.create_topic("u", 1)
        assert await commit(kit, 1) == 0
        assert await commit(kit, 2, topic="u") == 0
        await kit.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)
        assert await by_id(kit) == [(kept.id, [(2, 0)])]
        assert await by_id(kit, gone.id) == [(gone.id, [(-1, ErrorCode.UNKNOWN_TOPIC_ID)])]

    run(test)


def test_a_topic_that_is_asked_for_twice_is_answered_twice() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[each]) for each in (0, 1)]
        answer = await kit.ask(OffsetFetchRequest(group_id="g", topics=topics), 7)
        assert [(each.name, each.partitions[0].partition_index) for each in answer.topics] == [("t", 0), ("t", 1)]

    run(test)


def test_a_group_that_is_deleted_twice_in_one_request_is_answered_once() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert await commit(kit, 1) == 0
        (result,) = (await kit.ask(DeleteGroupsRequest(groups_names=["g", "g"]), 2)).results
        assert result.error_code == 0

    run(test)


def test_an_offset_that_cannot_be_there_is_no_matter_of_who_reads_its_topic() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await member(kit)
        parts = [OffsetDeleteRequestPartition(partition_index=each) for each in (0, 9)]
        message = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=parts)])
        (topic,) = (await kit.ask(message, 0)).topics
        assert [each.error_code for each in topic.partitions] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        unnamed = await kit.ask(OffsetDeleteRequest(group_id="", topics=[]), 0)
        assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID

    run(test)
