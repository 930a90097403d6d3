"""Fetch: limits, waiting, errors and sessions."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
)
from tests.unit.kafka_front.kit import Client, Kit, batch, run

GOOD = batch([b"a", b"b", b"c"])
SIZE = len(GOOD)


def asking(*offsets: int, topic: str = "t", size: int = 1 << 20, **given: Any) -> FetchRequest:
    """Partition ``i`` from ``offsets[i]`` on."""
    parts = [
        FetchRequestPartition(partition=i, fetch_offset=at, partition_max_bytes=size) for i, at in enumerate(offsets)
    ]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "topics": [FetchRequestTopic(topic=topic, partitions=parts)], **given}
    )


async def fetch(client: Client, request: FetchRequest, version: int = 12) -> list[FetchResponsePartition]:
    answer = await client.ask(request, version)
    assert answer.error_code == 0
    return [part for topic in answer.responses for part in topic.partitions]


async def filled(kit: Kit, partitions: int = 1, batches: int = 2) -> None:
    kit.store.create_topic("t", partitions)
    for partition in range(partitions):
        await kit.produce("t", *[GOOD] * batches, partition=partition)


@pytest.mark.parametrize("version", range(4, 17))
def test_every_version_gets_the_batches_as_stored(version: int) -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        topic = kit.store.topic("t")
        assert topic is not None
        request = asking(0)
        if version >= 13:
            request = asking(0, topics=[FetchRequestTopic(topic_id=topic.id, partitions=request.topics[0].partitions)])
        answer = await kit.ask(request, version)
        (found,) = answer.responses
        assert (found.topic_id if version >= 13 else found.topic) == (topic.id if version >= 13 else "t")
        (part,) = found.partitions
        assert (part.high_watermark, part.last_stable_offset, part.error_code) == (6, 6, 0)
        assert part.aborted_transactions is None
        assert len(part.records) == 2 * SIZE

    run(test)


def test_reading_begins_with_the_batch_that_holds_the_offset() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        (part,) = await fetch(kit, asking(4))
        assert len(part.records or b"") == SIZE
        (end,) = await fetch(kit, asking(6))
        assert (end.records, end.error_code) == (b"", 0)

    run(test)


@pytest.mark.parametrize("offset", [-1, 7, 1 << 40])
def test_an_offset_outside_the_log_says_so(offset: int) -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        (part,) = await fetch(kit, asking(offset))
        assert (part.error_code, part.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert not part.records

    run(test)


def test_only_the_first_batch_may_exceed_the_limits() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, partitions=2)
        first, second = await fetch(kit, asking(0, 0, max_bytes=1))
        assert (len(first.records or b""), len(second.records or b"")) == (SIZE, 0)
        first, second = await fetch(kit, asking(0, 0, max_bytes=3 * SIZE))
        assert (len(first.records or b""), len(second.records or b"")) == (2 * SIZE, SIZE)
        first, second = await fetch(kit, asking(0, 0, size=1))
        assert (len(first.records or b""), len(second.records or b"")) == (SIZE, 0)

    run(test)


def test_the_nodes_own_limit_counts_too() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, batches=4)
        (part,) = await fetch(kit, asking(0))
        assert len(part.records or b"") == 2 * SIZE

    run(test, KafkaFrontOptions(fetch_max_bytes=3 * SIZE - 1))


def test_what_cannot_be_read_has_its_own_error_and_the_rest_is_read() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        parts = [FetchRequestPartition(partition=i, fetch_offset=0, partition_max_bytes=1 << 20) for i in (0, 1, -1)]
        fenced = FetchRequestPartition(partition=0, fetch_offset=0, current_leader_epoch=0, partition_max_bytes=1)
        ahead = FetchRequestPartition(partition=0, fetch_offset=0, current_leader_epoch=99, partition_max_bytes=1)
        codes = []
        for topic, some in (("t", parts), ("missing", parts[:1]), ("t", [fenced]), ("t", [ahead])):
            request = asking(topics=[FetchRequestTopic(topic=topic, partitions=some)], max_wait_ms=60_000)
            codes.append([part.error_code for part in await fetch(kit, request)])
        assert codes == [[0, 3, 3], [3], [74], [75]]

    run(test)


def test_an_unknown_topic_id_is_another_error_than_an_unknown_name() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        request = asking(topics=[FetchRequestTopic(topic_id=b"x" * 16, partitions=asking(0).topics[0].partitions)])
        (part,) = await fetch(kit, request, version=13)
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(test)


def test_a_reader_of_another_history_is_told_where_it_parted() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        epoch = kit.store.epoch
        part = FetchRequestPartition(partition=0, fetch_offset=9, last_fetched_epoch=epoch, partition_max_bytes=1)
        (found,) = await fetch(kit, asking(topics=[FetchRequestTopic(topic="t", partitions=[part])]))
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (epoch, 6)
        assert not found.records

    run(test)


def test_read_committed_readers_get_an_empty_list_of_aborted_transactions() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        (part,) = await fetch(kit, asking(0, isolation_level=1))
        assert part.aborted_transactions == ()

    run(test)


# Waiting.


def waiting(kit: Kit, client: Client, request: FetchRequest) -> asyncio.Task[Sequence[FetchResponsePartition]]:
    del kit
    return asyncio.ensure_future(fetch(client, request))


async def parked(kit: Kit) -> None:
    """Let everything run until it waits."""
    del kit
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_waiting_fetch_is_answered_by_the_next_append() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        task = waiting(kit, kit.client(), asking(0, max_wait_ms=60_000))
        await parked(kit)
        assert not task.done()
        await kit.produce("t", GOOD)
        (part,) = await asyncio.wait_for(task, 5)
        assert len(part.records or b"") == SIZE

    run(test)


def test_a_waiting_fetch_waits_for_as_many_bytes_as_it_wants() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        task = waiting(kit, kit.client(), asking(0, max_wait_ms=60_000, min_bytes=SIZE + 1))
        await kit.produce("t", GOOD)
        await parked(kit)
        assert not task.done()
        await kit.produce("t", GOOD)
        (part,) = await asyncio.wait_for(task, 5)
        assert len(part.records or b"") == 2 * SIZE

    run(test)


def test_a_fetch_that_waited_long_enough_gets_what_there_is() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, batches=1)
        (part,) = await asyncio.wait_for(fetch(kit, asking(0, max_wait_ms=1, min_bytes=1 << 20)), 5)
        assert len(part.records or b"") == SIZE

    run(test)


def test_a_waiting_fetch_hears_of_the_topics_end() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        task = waiting(kit, kit.client(), asking(0, max_wait_ms=60_000))
        await parked(kit)
        await kit.enode.delete_topic("t")
        (part,) = await asyncio.wait_for(task, 5)
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


@pytest.mark.parametrize("end", ["connection", "node"])
def test_nothing_waits_for_a_client_that_is_gone_or_a_node_that_stops(end: str) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        client = kit.client()
        task = waiting(kit, client, asking(0, max_wait_ms=2**31 - 1))
        await parked(kit)
        if end == "connection":
            client.session.lost()
        else:
            await kit.front.stop()
        (part,) = await asyncio.wait_for(task, 5)
        assert part.records == b""

    run(test)


# Sessions.

COUNTS = "a session counts its requests, and tells of an error and of its end; see test_in_doubt"


def opening(*offsets: int, **given: Any) -> FetchRequest:
    return asking(*offsets, session_id=0, session_epoch=0, **given)


@pytest.mark.lossless(COUNTS)
def test_an_incremental_answer_names_only_what_is_new() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, partitions=2, batches=1)
        first = await kit.ask(opening(3, 3), 12)
        assert first.session_id > 0
        assert [part.partition_index for part in first.responses[0].partitions] == [0, 1]
        idle = await kit.ask(asking(session_id=first.session_id, session_epoch=1, topics=[]), 12)
        assert (idle.session_id, len(idle.responses)) == (first.session_id, 0)
        await kit.produce("t", GOOD, partition=1)
        news = await kit.ask(asking(session_id=first.session_id, session_epoch=2, topics=[]), 12)
        (part,) = news.responses[0].partitions
        assert (part.partition_index, part.high_watermark, len(part.records)) == (1, 6, SIZE)

    run(test)


@pytest.mark.lossless(COUNTS)
def test_partitions_are_changed_forgotten_and_the_empty_session_ends() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, partitions=2, batches=1)
        first = await kit.ask(opening(3, 3), 12)
        moved = asking(0, session_id=first.session_id, session_epoch=1)
        again = await kit.ask(moved, 12)
        assert [part.partition_index for part in again.responses[0].partitions] == [0]
        gone = [FetchRequestForgottenTopic(topic="t", partitions=[0, 1])]
        last = await kit.ask(
            asking(session_id=first.session_id, session_epoch=2, topics=[], forgotten_topics_data=gone), 12
        )
        assert (last.session_id, len(last.responses)) == (0, 0)
        after = await kit.ask(asking(session_id=first.session_id, session_epoch=3, topics=[]), 12)
        assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    run(test)


@pytest.mark.lossless(COUNTS)
def test_whoever_got_records_is_served_last_next_time() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, partitions=2, batches=3)
        first = await kit.ask(opening(0, 0, max_bytes=1), 12)
        assert [bool(part.records) for part in first.responses[0].partitions] == [True, False]
        request = asking(session_id=first.session_id, session_epoch=1, topics=[], max_bytes=1)
        (part,) = (await kit.ask(request, 12)).responses[0].partitions
        assert part.partition_index == 1

    run(test)


@pytest.mark.lossless(COUNTS)
def test_an_error_is_told_once_more_when_it_is_over() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, batches=1)
        first = await kit.ask(opening(99), 12)
        assert first.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        over = await kit.ask(asking(3, session_id=first.session_id, session_epoch=1), 12)
        assert over.responses[0].partitions[0].error_code == 0

    run(test)


def test_sessions_are_strict_about_their_numbers() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        session = (await kit.ask(opening(6), 12)).session_id
        for given, version, code in (
            ({"session_id": session ^ 1, "session_epoch": 1}, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            ({"session_id": session, "session_epoch": 5}, 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            ({"session_id": session, "session_epoch": 1}, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        ):
            answer = await kit.ask(asking(topics=[], **given), version)
            assert (answer.error_code, answer.session_id, len(answer.responses)) == (code, 0, 0)
        good = await kit.ask(asking(topics=[], session_id=session, session_epoch=1), 12)
        assert good.error_code == 0

    run(test)


def test_a_new_full_fetch_replaces_the_old_session_and_the_final_one_ends_it() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        first = (await kit.ask(opening(6), 12)).session_id
        second = (await kit.ask(asking(6, session_id=first, session_epoch=0), 12)).session_id
        assert second not in (0, first)
        old = await kit.ask(asking(topics=[], session_id=first, session_epoch=1), 12)
        assert old.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        final = await kit.ask(asking(0, session_id=second, session_epoch=-1), 12)
        assert (final.session_id, len(final.responses)) == (0, 1)
        gone = await kit.ask(asking(topics=[], session_id=second, session_epoch=1), 12)
        assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    run(test)


@pytest.mark.lossless(COUNTS)
def test_a_session_used_by_two_connections_gets_out_of_step_and_nothing_worse() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit, partitions=2, batches=1)
        session = (await kit.ask(opening(3, 3), 12)).session_id
        first = waiting(kit, kit.client(), asking(topics=[], session_id=session, session_epoch=1, max_wait_ms=60_000))
        await parked(kit)
        same = await kit.ask(asking(topics=[], session_id=session, session_epoch=1), 12)
        assert same.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        gone = [FetchRequestForgottenTopic(topic="t", partitions=[1])]
        request = asking(session_id=session, session_epoch=2, topics=[], forgotten_topics_data=gone)
        assert (await kit.ask(request, 12)).error_code == 0
        for partition in (0, 1):
            await kit.produce("t", GOOD, partition=partition)
        (part,) = await asyncio.wait_for(first, 5)
        assert part.partition_index == 0

    run(test)


@pytest.mark.lossless(COUNTS)
def test_where_there_is_no_room_for_a_session_fetches_work_without() -> None:
    async def test(kit: Kit) -> None:
        await filled(kit)
        assert (await kit.ask(opening(0), 12)).session_id > 0
        full = await kit.ask(opening(0), 12)
        assert (full.session_id, full.error_code, len(full.responses)) == (0, 0, 1)

    run(test, KafkaFrontOptions(fetch_sessions=1))
