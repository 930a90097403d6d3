"""Offsets in logs: by name, by time, by epoch; and deleting what is before one."""

from typing import Any

import pytest

from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    MetadataRequestTopic,
)
from penstock.protocols.kafka.wire.topics import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from tests.unit.kafka_front.kit import Kit, batch, run
from tests.unit.kafka_front.transaction_kit import Writer


def topics(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


async def offset(
    kit: Kit, timestamp: int, *, version: int = 9, partition: int = 0, isolation: int = 0, **given: int
) -> Any:
    part = ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamp, **given)
    topic = ListOffsetsRequestTopic(name="t", partitions=[part])
    answer = await kit.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), version)
    return answer.topics[0].partitions[0]


def test_offsets_are_found_by_their_names_and_by_time() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await kit.produce(
            "t", batch([b"a"] * 3, time_ms=1_000), batch([b"a"], time_ms=3_000), batch([b"a"], time_ms=2_000)
        )
        for asked, expected in (
            (-1, (5, -1)),
            (-2, (0, -1)),
            (-3, (3, 3_000)),
            (-4, (0, -1)),
            (-5, (-1, -1)),
            (0, (0, 1_000)),
            (1_000, (0, 1_000)),
            (1_001, (3, 3_000)),
            (3_001, (-1, -1)),
        ):
            found = await offset(kit, asked)
            assert (found.error_code, found.offset, found.timestamp) == (0, *expected)

    run(test)


def test_an_empty_log_has_no_largest_time() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        found = await offset(kit, -3)
        assert (found.error_code, found.offset, found.timestamp) == (0, -1, -1)

    run(test)


def test_the_largest_time_may_be_a_markers_and_is_below_what_the_reader_may_see() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        writer = Writer(kit)
        assert await writer.init() == 0
        assert await writer.write("t", b"a") == 0
        assert await writer.end(commit=True) == 0
        found = await offset(kit, -3)
        assert (found.error_code, found.offset) == (0, 1)
        assert (await offset(kit, found.timestamp)).offset == 1
        assert await writer.write("t", b"b") == 0
        await kit.produce("t", batch(time_ms=found.timestamp + 1_000))
        for isolation, expected in ((0, 3), (1, -1)):
            last = await offset(kit, -3, isolation=isolation)
            assert (last.error_code, last.offset) == (0, expected)

    run(test)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-100, 11)])
def test_a_name_that_is_newer_than_the_version_is_unsupported(timestamp: int, version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await offset(kit, timestamp, version=version)).error_code == ErrorCode.UNSUPPORTED_VERSION

    run(test)


def test_a_log_that_is_not_tiered_has_nothing_that_waits_for_its_upload() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await kit.produce("t", batch())
        found = await offset(kit, -6, version=11)
        assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, -1, -1, -1)

    run(test)


def test_offsets_of_what_is_not_there_are_errors() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await offset(kit, -1, partition=1)).error_code == 3
        assert (await offset(kit, -1, current_leader_epoch=0)).error_code == 74
        assert (await offset(kit, -1, current_leader_epoch=9)).error_code == 75
        parts = [ListOffsetsRequestPartition(partition_index=0, timestamp=-1)] * 2
        topic = ListOffsetsRequestTopic(name="t", partitions=parts)
        answer = await kit.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 9)
        assert {part.error_code for part in answer.topics[0].partitions} == {ErrorCode.INVALID_REQUEST}

    run(test)


async def delete_before(kit: Kit, at: int, topic: str = "t") -> tuple[int, int]:
    part = DeleteRecordsRequestPartition(partition_index=0, offset=at)
    answer = await kit.ask(DeleteRecordsRequest(topics=[DeleteRecordsRequestTopic(name=topic, partitions=[part])]), 2)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


def test_records_are_deleted_up_to_an_offset() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        kit.store.create_topic("compacted", 1, {"cleanup.policy": "compact"})
        await kit.produce("t", batch([b"a"] * 5))
        assert await delete_before(kit, 2) == (0, 2)
        assert await delete_before(kit, 1) == (0, 2)
        assert await delete_before(kit, 6) == (1, -1)
        assert await delete_before(kit, -7) == (1, -1)
        assert await delete_before(kit, 0, "missing") == (3, -1)
        assert await delete_before(kit, 0, "compacted") == (44, -1)
        assert await delete_before(kit, -1) == (0, 5)
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (5, 5)

    run(test)


def test_epochs_end_where_the_log_ends() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await kit.produce("t", batch([b"a"] * 5))
        for number, epoch, code, end in ((0, 1, 0, 5), (1, 1, 3, -1)):
            part = OffsetForLeaderEpochRequestPartition(partition=number, leader_epoch=epoch)
            topic = OffsetForLeaderEpochRequestTopic(topic="t", partitions=[part])
            answer = await kit.ask(OffsetForLeaderEpochRequest(topics=[topic]), 4)
            found = answer.topics[0].partitions[0]
            assert (found.error_code, found.end_offset) == (code, end)

    run(test)
