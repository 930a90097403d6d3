"""A batch whose head says a length that is not there, alone in its answer: no consumer asks for it for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.config import ConsumerConfig, OnBadRecord
from penstock.errors import CorruptBatch
from penstock.model import Partition
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from tests.unit.bad_records.answers import batch
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage

FIRST = Partition("events", 0)
END = 7


def lying(length: int) -> bytes:
    one = batch(2, 3)
    one[8:12] = length.to_bytes(4, "big", signed=True)
    return bytes(one)


def log_of(middle: bytes) -> Any:
    """Answers from the batch that has the offset asked for, as a broker does."""
    batches = [(0, 2, bytes(batch(0, 2))), (2, 5, middle), (5, 7, bytes(batch(5, 2)))]

    def answer(request: Any, version: int) -> FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        records = b"".join(data for _, end, data in batches if end > offset)
        part = FetchResponsePartition(partition_index=0, high_watermark=END, records=records)
        by_name = version <= 12
        topic = FetchResponseTopic(
            topic=FIRST.topic if by_name else "",
            topic_id=bytes(16) if by_name else request.topics[0].topic_id,
            partitions=[part],
        )
        return FetchResponse(responses=[topic])

    return answer


async def taken(engine: ConsumerEngine, end: int) -> list[int]:
    found: list[int] = []
    while not found or found[-1] < end - 1:
        await engine.ready(asyncio.get_running_loop().time() + 5)
        found += [each.offset for each in engine.take(100)]
    return found


def engine_on(it: Stage, middle: bytes, choice: OnBadRecord) -> ConsumerEngine:
    async def call(*_: object) -> None: ...

    it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {FIRST.topic: {0: (1, 0)}})
    it.broker.answers["Fetch"] = log_of(middle)
    config = ConsumerConfig(on_bad_record=choice, fetch_max_wait_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=2)
    return ConsumerEngine(it.client, config, call)


@pytest.mark.parametrize("length", [-1, 5, 48, 1_000_000, 2**31 - 1])
def test_a_consumer_fails_at_it_and_seeks_past(length: int) -> None:
    async def run() -> None:
        async with stage() as it:
            engine = engine_on(it, lying(length), OnBadRecord.AUTO)
            await engine.assign({FIRST: 0})
            assert await taken(engine, 2) == [0, 1]
            for _ in "12":
                with pytest.raises(CorruptBatch) as raised:
                    await taken(engine, END)
                assert (raised.value.offset, raised.value.next_offset) == (2, 5)
            engine.state_of(FIRST).jump(5)
            assert await taken(engine, END) == [5, 6]
            await engine.close(1.0)

    go(run())


@pytest.mark.parametrize("length", [-1, 5, 48, 1_000_000, 2**31 - 1])
def test_a_consumer_skips_it(length: int) -> None:
    async def run() -> None:
        async with stage() as it:
            engine = engine_on(it, lying(length), OnBadRecord.SKIP)
            await engine.assign({FIRST: 0})
            assert await taken(engine, END) == [0, 1, 5, 6]
            assert engine.metrics().bad_records_total == 3
            await engine.close(1.0)

    go(run())
