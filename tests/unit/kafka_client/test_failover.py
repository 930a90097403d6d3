"""Brokers that die, in virtual time: how long a partition stands still beyond the time its election takes."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.producer.engine import ProducerEngine
from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.three_brokers import FIRST, brokers, call, read, write


@pytest.mark.parametrize("election_s", [0.5, 3.0, 9.0, 30.0])
def test_a_partition_stands_still_for_a_twentieth_longer_than_its_election(election_s: float) -> None:
    async def main() -> None:
        async with brokers() as cluster:
            loop = asyncio.get_running_loop()
            producer = ProducerEngine(cluster.client(), ProducerConfig(), loop.call_soon)
            config = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=50)
            consumer = ConsumerEngine(cluster.client(), config, call)
            await consumer.assign({FIRST: 0})
            await write(producer)
            await read(consumer, 1)
            await cluster.kill(1)
            killed = loop.time()
            loop.call_later(election_s, cluster.elect, 2)
            written, found = await asyncio.gather(write(producer), read(consumer, 2))
            assert written - killed < 1.05 * election_s + 0.3
            assert found - killed < 1.05 * election_s + 0.4
            await producer.close(1)
            await consumer.close(1)

    run(main())


def test_all_brokers_killed_in_turn_cost_no_more_than_their_elections() -> None:
    async def main() -> None:
        async with brokers() as cluster:
            loop = asyncio.get_running_loop()
            producer = ProducerEngine(cluster.client(), ProducerConfig(), loop.call_soon)
            await write(producer)
            for dead, heir in ((1, 2), (2, 3), (3, 1), (1, 3)):
                await cluster.kill(dead)
                killed = loop.time()
                loop.call_later(9.0, cluster.elect, heir)
                assert await write(producer) - killed < 9.0 * 1.05 + 0.3
                await cluster.revive(dead)
                await passing(1.0)
            await producer.close(1)

    run(main())
