"""Brokers that die, in virtual time: how long a partition stands still beyond the time its election takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.client._consumer_engine import ConsumerEngine
from penstock.client._producing import ProducerEngine
from penstock.client.delivery import BatchDelivery
from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig
from penstock.model import Endpoint, Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.memory import MemoryNetwork
from penstock.net.server import Listener, serve
from penstock.protocols.kafka.client import KafkaClient, open_client
from penstock.protocols.kafka.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.messages.produce import (
    InitProducerIdResponse,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from penstock.protocols.kafka.records import encode
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.scripted import ScriptedBroker, metadata

FIRST = Partition("events", 0)
ROW = pa.table({"value": pa.array([b"x"], pa.binary())})


@dataclass
class Brokers:
    """Three; ``leader`` is what all of them say leads the one partition, whoever it is."""

    network: MemoryNetwork
    listeners: dict[int, Listener]
    leader: int = 1
    epoch: int = 1
    stored: int = 0

    def client(self) -> KafkaClient:
        at = [listener.endpoint for listener in self.listeners.values()]
        return open_client(lambda dialect: AsyncioChannel(dialect, network=self.network), at)

    async def kill(self, node: int) -> None:
        await self.listeners[node].close()

    async def revive(self, node: int) -> None:
        self.listeners[node] = await serve(self._script(node), self.listeners[node].endpoint, network=self.network)

    def elect(self, node: int) -> None:
        self.leader, self.epoch = node, self.epoch + 1

    async def start(self) -> None:
        for node in (1, 2, 3):
            self.listeners[node] = await serve(self._script(node), Endpoint(f"b{node}", 0), network=self.network)

    def _script(self, node: int) -> ScriptedBroker:
        def moved() -> int:
            return 0 if self.leader == node else 6

        def told(request: Any, version: int) -> object:
            at = {number: listener.endpoint for number, listener in self.listeners.items()}
            return metadata(at, {FIRST.topic: {0: (self.leader, self.epoch)}})(request, version)

        def produce(_: Any, version: int) -> ProduceResponse:
            self.stored += moved() == 0
            answer = ProduceResponsePartition(index=0, error_code=moved(), base_offset=self.stored - 1)
            topic = {"name": FIRST.topic} if version < 13 else {}
            return ProduceResponse(responses=[ProduceResponseTopic(partition_responses=[answer], **topic)])

        def fetch(request: Any, _: int) -> FetchResponse:
            offset = request.topics[0].partitions[0].fetch_offset
            records = b"" if moved() or offset >= self.stored else batch(offset)
            answer = FetchResponsePartition(
                partition_index=0, error_code=moved(), high_watermark=self.stored, records=records
            )
            return FetchResponse(responses=[FetchResponseTopic(topic=FIRST.topic, partitions=[answer])])

        started = InitProducerIdResponse(producer_id=1, producer_epoch=0)
        return ScriptedBroker(
            {"Metadata": told, "Produce": produce, "Fetch": fetch, "InitProducerId": lambda *_: started}
        )


def batch(offset: int) -> bytes:
    return bytes(encode(pa.record_batch({"value": [b"x"]}), base_offset=offset, timestamp_ms=1))


@asynccontextmanager
async def brokers() -> AsyncIterator[Brokers]:
    made = Brokers(MemoryNetwork(lambda: 0.001), {})
    await made.start()
    try:
        yield made
    finally:
        for listener in made.listeners.values():
            await listener.close()


async def write(engine: ProducerEngine) -> float:
    """Send a row; when it was acknowledged."""
    outcomes = [engine.intake.put_table(*table) for table in engine.tables(FIRST.topic, ROW)]
    await BatchDelivery([outcome for outcome in outcomes if outcome is not None])
    return asyncio.get_running_loop().time()


async def read(engine: ConsumerEngine, offset: int) -> float:
    """Poll until the record before ``offset`` came; when it did."""
    while (engine.partitions.positions().get(FIRST) or 0) < offset:
        await engine.ready(asyncio.get_running_loop().time() + 500)
        engine.take(100)
    return asyncio.get_running_loop().time()


async def call(*_: object) -> None: ...


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
