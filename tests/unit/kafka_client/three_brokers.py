"""Three scripted brokers of one partition, in virtual time: which of them leads it is the test's to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.producer.delivery import BatchDelivery
from penstock.client.producer.engine import ProducerEngine
from penstock.model import Endpoint, Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from penstock.net.server import Listener, serve
from penstock.protocols.kafka.client.client import KafkaClient, open_client
from penstock.protocols.kafka.wire.fetch import (
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
    FetchResponsePartition,
    FetchResponseTopic,
)
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdResponse,
    ProduceResponse,
    ProduceResponseCurrentLeader,
    ProduceResponseNodeEndpoint,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from penstock.protocols.kafka.wire.records import encode
from tests.unit.kafka_client.scripted import ScriptedBroker, metadata

FIRST = Partition("events", 0)
ID = b"events" + bytes(10)
ROW = pa.table({"value": pa.array([b"x"], pa.binary())})


@dataclass
class Brokers:
    """Three; ``leader`` is what all of them say leads the one partition, whoever it is.

    ``named`` is (leader, epoch, its place) as those say it that refuse, None where they do not; ``refusal`` their code.
    ``asked`` has (node, API) of every question. Topics have ids.
    """

    network: MemoryNetwork
    listeners: dict[int, Listener]
    leader: int = 1
    epoch: int = 1
    stored: int = 0
    named: tuple[int, int, int] | None = None
    refusal: int = 6
    known: int = 3
    asked: list[tuple[int, str]] = field(default_factory=list)

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

    def heard(self, api: str) -> list[int]:
        """Which nodes were asked, in order."""
        return [node for node, name in self.asked if name == api]

    def _place(self, node: int) -> dict[str, Any]:
        at = self.listeners[node].endpoint
        return {"node_id": node, "host": at.host, "port": at.port}

    def _refuses(self, node: int, epoch: int = -1) -> int:
        if self.leader != node:
            return 6
        return 74 if 0 <= epoch < self.epoch and self.refusal == 74 else 0

    def _script(self, node: int) -> ScriptedBroker:
        def told(request: Any, version: int) -> object:
            self.asked.append((node, "Metadata"))
            at = {number: self.listeners[number].endpoint for number in list(self.listeners)[: self.known]}
            return metadata(at, {FIRST.topic: {0: (self.leader, self.epoch)}}, {FIRST.topic: ID})(request, version)

        def produce(_: Any, version: int) -> ProduceResponse:
            self.asked.append((node, "Produce"))
            code = self._refuses(node)
            self.stored += code == 0
            leader, nodes = ProduceResponseCurrentLeader(), []
            if code and self.named is not None:
                leader = ProduceResponseCurrentLeader(leader_id=self.named[0], leader_epoch=self.named[1])
                nodes = [ProduceResponseNodeEndpoint(**{**self._place(self.named[2]), "node_id": self.named[0]})]
            answer = ProduceResponsePartition(
                index=0, error_code=code, base_offset=self.stored - 1, current_leader=leader
            )
            topic = ProduceResponseTopic(**_topic(version, "name"), partition_responses=[answer])
            return ProduceResponse(responses=[topic], node_endpoints=nodes)

        def fetch(request: Any, version: int) -> FetchResponse:
            self.asked.append((node, "Fetch"))
            if not request.topics:
                return FetchResponse(
                    error_code=0 if request.session_epoch else 70
                )  # whoever hangs up, or asks for more
            part = request.topics[0].partitions[0]
            code = self._refuses(node, part.current_leader_epoch)
            records = b"" if code or part.fetch_offset >= self.stored else batch(part.fetch_offset)
            leader, nodes = FetchResponseCurrentLeader(), []
            if code and self.named is not None:
                leader = FetchResponseCurrentLeader(leader_id=self.named[0], leader_epoch=self.named[1])
                nodes = [FetchResponseNodeEndpoint(**{**self._place(self.named[2]), "node_id": self.named[0]})]
            answer = FetchResponsePartition(
                partition_index=0, error_code=code, high_watermark=self.stored, records=records, current_leader=leader
            )
            topic = FetchResponseTopic(**_topic(version, "topic"), partitions=[answer])
            return FetchResponse(responses=[topic], node_endpoints=nodes)

        started = InitProducerIdResponse(producer_id=1, producer_epoch=0)
        return ScriptedBroker(
            {"Metadata": told, "Produce": produce, "Fetch": fetch, "InitProducerId": lambda *_: started}
        )


def _topic(version: int, name: str) -> dict[str, Any]:
    return {name: FIRST.topic} if version < 13 else {"topic_id": ID}


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
    outcomes = [engine.accumulator.put_table(*table) for table in engine.tables(FIRST.topic, ROW)]
    await BatchDelivery([outcome for outcome in outcomes if outcome is not None])
    return asyncio.get_running_loop().time()


async def read(engine: ConsumerEngine, offset: int) -> float:
    """Poll until the record before ``offset`` came; when it did."""
    while (engine.partitions.positions().get(FIRST) or 0) < offset:
        await engine.ready(asyncio.get_running_loop().time() + 500)
        engine.take(100)
    return asyncio.get_running_loop().time()


async def call(*_: object) -> None: ...
