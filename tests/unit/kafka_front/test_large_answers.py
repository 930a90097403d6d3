"""Fetches of much: what is put together on the event loop is little, whatever is asked for, and by however many."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from penstock.concurrency.background import STEP_BYTES, LoopBudget
from penstock.interfaces.framing import Buffer, Frame, Pieces, joined
from penstock.model import Partition
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from penstock.protocols.kafka.wire.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from tests.unit.kafka_front.kit import Kit, batch, run

pytestmark = pytest.mark.near  # it is about turns of a real loop

MB = 1 << 20


def fetch(*partitions: int, max_bytes: int = 50 * MB) -> FetchRequest:
    parts = [FetchRequestPartition(partition=each, fetch_offset=0, partition_max_bytes=50 * MB) for each in partitions]
    topics = [FetchRequestTopic(topic="t", partitions=parts)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, topics=topics)


async def pieces(kit: Kit, message: FetchRequest) -> Pieces:
    data = b"".join(request(message, 11, "me")(7))
    answer = await kit.client().session.handle(Frame(7, False, memoryview(data)[4:]))
    assert answer is not None
    return answer


def in_memory(answer: Pieces) -> int:
    return sum(len(piece) for piece in answer if isinstance(piece, Buffer))


def test_large_records_stay_in_their_log_until_they_are_sent() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 2, {})
        for _ in range(3):
            for partition in (0, 1):
                await kit.produce("t", batch([bytes(900_000)]), partition=partition)
        answer = await pieces(kit, fetch(0, 1))
        assert in_memory(answer) < 1_000
        whole = joined(answer)
        assert int.from_bytes(whole[:4], "big") == len(whole) - 4 > 5_400_000
        told = await kit.ask(fetch(0, 1), 11)
        for partition, part in enumerate(told.responses[0].partitions):
            assert part.records == kit.store.log("t", partition).read(0, 50 * MB).data

    run(test)


def test_small_records_of_many_partitions_are_read_at_once_and_large_ones_of_64() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 100, {})
        for partition in range(100):
            await kit.produce("t", batch([bytes(10_000)]), partition=partition)
        small = await pieces(kit, fetch(*range(100)))
        assert 1_000_000 < in_memory(small) == len(joined(small))
        for partition in range(100):
            await kit.produce("t", batch([bytes(90_000)]), partition=partition)
        large = await pieces(kit, fetch(*range(100)))
        assert in_memory(large) < 100_000
        assert sum(not isinstance(piece, Buffer) for piece in large) == 64

    run(test)


def test_a_client_that_takes_little_at_a_time_gets_the_first_batch_whole() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 2, {})
        for partition in (0, 1):
            await kit.produce("t", batch([bytes(900_000)]), partition=partition)
        first, second = (await kit.ask(fetch(0, 1, max_bytes=1_000), 11)).responses[0].partitions
        assert (len(first.records) > 900_000, len(second.records)) == (True, 0)

    run(test)


def test_fetches_of_many_clients_are_spread_over_turns_of_the_loop() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 200, {})
        await kit.produce("t", batch([bytes(60_000)]))
        done: list[int] = []

        async def one(number: int) -> None:
            await pieces(kit, fetch(*range(200)))
            done.append(number)

        tasks = [asyncio.ensure_future(one(number)) for number in range(30)]
        before, most = 0, 0
        while len(done) < 30:
            await asyncio.sleep(0)
            before, most = len(done), max(most, len(done) - before)
        assert most <= 6
        assert done == sorted(done)
        await asyncio.gather(*tasks)

    run(test)


def test_what_is_taken_of_a_turn_is_bounded_and_in_order() -> None:
    async def test(kit: Kit) -> None:
        turns = LoopBudget(kit.runtime)
        served: list[int] = []

        async def one(number: int) -> None:
            await turns.take(5_000_000 // STEP_BYTES)
            served.append(number)

        tasks = [asyncio.ensure_future(one(number)) for number in range(40)]
        seen = [0]
        while len(served) < 40:
            await asyncio.sleep(0)
            seen.append(len(served))
        assert max(after - before for before, after in itertools.pairwise(seen)) <= 5
        assert served == list(range(40))
        await asyncio.gather(*tasks)

    run(test)


def topics(count: int) -> CreateTopicsRequest:
    wanted = [CreateTopicsRequestTopic(name=f"t{row}", num_partitions=1, replication_factor=1) for row in range(count)]
    return CreateTopicsRequest(topics=wanted, timeout_ms=1_000)


def produced(count: int) -> ProduceRequest:
    parts = [ProduceRequestPartition(index=row, records=batch([b"v"])) for row in range(count)]
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[ProduceRequestTopic(name="big", partition_data=parts)])


def offsets(count: int, timestamp: int) -> ListOffsetsRequest:
    parts = [ListOffsetsRequestPartition(partition_index=row, timestamp=timestamp) for row in range(count)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name="big", partitions=parts)])


@pytest.mark.parametrize(
    ("message", "version", "turns"),
    [
        pytest.param(topics(50), 5, 20, id="topics"),
        pytest.param(produced(1_000), 9, 9, id="produce"),
        pytest.param(offsets(1_000, -1), 7, 2, id="latest"),
        pytest.param(offsets(20, 1), 7, 19, id="by time"),
    ],
)
def test_a_request_for_much_is_served_in_several_turns_of_the_loop(message: Any, version: int, turns: int) -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("big", 1_000, {})
        await kit.enode.max_timestamp(Partition("big", 0))
        asked = asyncio.ensure_future(kit.client().ask(message, version))
        seen = 0
        while not asked.done():
            await asyncio.sleep(0)
            seen += 1
        assert seen >= turns
        answer = await asked
        told = str(answer)
        assert "error_code=0" in told or "error_code=<ErrorCode.NONE" in told

    run(test)


def test_a_request_to_many_partitions_is_answered_in_order_each_with_its_own_fault() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("big", 250, {})
        answer = await kit.client().ask(produced(300), 9)
        told = answer.responses[0].partition_responses
        assert [each.index for each in told] == list(range(300))
        assert [bool(each.error_code) for each in told] == [row >= 250 for row in range(300)]

    run(test)
