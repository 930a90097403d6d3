"""A broker that refuses a partition may name its leader (KIP-951): it is believed, and asked at once."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.producer.engine import ProducerEngine
from penstock.client.ranges.range_reader import RangeRead
from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig
from penstock.model import LogRange
from tests.unit.client.virtual_time import run
from tests.unit.kafka_client.three_brokers import FIRST, Brokers, brokers, call, read, write

SOON_S = 0.02
"""A few round trips of a millisecond; the shortest pause is 80."""


async def producing(cluster: Brokers) -> ProducerEngine:
    producer = ProducerEngine(cluster.client(), ProducerConfig(linger_ms=0), asyncio.get_running_loop().call_soon)
    await write(producer)
    return producer


async def consuming(cluster: Brokers) -> ConsumerEngine:
    config = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=50)
    consumer = ConsumerEngine(cluster.client(), config, call)
    await consumer.assign({FIRST: 0})
    await read(consumer, 1)
    return consumer


def test_a_producer_sends_to_the_leader_that_was_named_and_asks_nobody() -> None:
    async def main() -> None:
        async with brokers() as cluster:
            producer = await producing(cluster)
            cluster.elect(2)
            cluster.named = (2, 2, 2)
            cluster.asked.clear()
            moved = asyncio.get_running_loop().time()
            assert await write(producer) - moved < SOON_S
            assert cluster.asked == [(1, "Produce"), (2, "Produce")]
            await write(producer)
            assert cluster.heard("Produce") == [1, 2, 2]
            await producer.close(1)

    run(main())


@pytest.mark.parametrize("listed", [3, 1], ids=["a node that is known", "a node that only the answer tells of"])
def test_a_consumer_reads_at_the_leader_that_was_named_and_asks_nobody(listed: int) -> None:
    async def main() -> None:
        async with brokers() as cluster:
            cluster.known = listed
            asyncio.get_running_loop().call_later(5, setattr, cluster, "known", 3)
            cluster.stored = 1
            consumer = await consuming(cluster)
            cluster.elect(2)
            cluster.named = (2, 2, 2)
            cluster.stored = 2
            cluster.asked.clear()
            moved = asyncio.get_running_loop().time()
            assert await read(consumer, 2) - moved < SOON_S
            assert cluster.heard("Metadata") == []
            assert [node for node, _ in cluster.asked if node != 1][:1] == [2]
            await consumer.close(1)

    run(main())


def test_an_epoch_that_is_over_at_the_same_leader_is_replaced_at_once() -> None:
    async def main() -> None:
        async with brokers() as cluster:
            cluster.stored = 1
            consumer = await consuming(cluster)
            cluster.elect(1)
            cluster.refusal, cluster.named = 74, (1, 2, 1)
            cluster.stored = 2
            cluster.asked.clear()
            moved = asyncio.get_running_loop().time()
            assert await read(consumer, 2) - moved < SOON_S
            assert cluster.heard("Metadata") == []
            await consumer.close(1)

    run(main())


def test_a_range_goes_on_at_the_leader_that_was_named() -> None:
    async def main() -> None:
        async with brokers() as cluster:
            cluster.stored = 3
            client = cluster.client()
            reading = RangeRead(client, LogRange(FIRST.topic, 0, 0, 3))
            assert await reading.next()
            cluster.elect(3)
            cluster.named = (3, 2, 3)
            cluster.asked.clear()
            moved = asyncio.get_running_loop().time()
            while await reading.next():
                pass
            assert asyncio.get_running_loop().time() - moved < SOON_S
            assert cluster.heard("Metadata") == []
            assert cluster.heard("Fetch")[-1] == 3
            await client.close()

    run(main())


@pytest.mark.parametrize(
    "named",
    [(1, 1, 1), (3, 1, 3), (3, 0, 3), (-1, -1, 1), (9, 1, 2)],
    ids=["itself", "another of the same epoch", "one of an older epoch", "nobody", "a stranger of the same epoch"],
)
def test_what_is_no_news_is_not_believed_and_somebody_is_asked(named: tuple[int, int, int]) -> None:
    async def main() -> None:
        async with brokers() as cluster:
            producer = await producing(cluster)
            consumer = await consuming(cluster)
            cluster.elect(2)
            cluster.named = named
            cluster.asked.clear()
            moved = asyncio.get_running_loop().time()
            await write(producer)
            await read(consumer, 2)
            assert asyncio.get_running_loop().time() - moved < 0.5
            assert len(cluster.heard("Metadata")) >= 2
            assert 3 not in cluster.heard("Produce") + cluster.heard("Fetch")
            await producer.close(1)
            await consumer.close(1)

    run(main())


def test_a_node_that_is_named_in_vain_is_asked_about_like_any_other() -> None:
    async def main() -> None:
        async with brokers() as cluster:
            producer = await producing(cluster)
            cluster.elect(2)
            cluster.named = (3, 2, 3)  # and the third one says so, too: it does not lead it
            cluster.asked.clear()
            moved = asyncio.get_running_loop().time()
            assert await write(producer) - moved < 0.5
            assert cluster.heard("Produce") == [1, 3, 2]
            assert cluster.heard("Metadata")
            await producer.close(1)

    run(main())
