"""Reading from the follower that the leader names (KIP-392), and from the leader again where that goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.ranges.range_reader import RangeRead
from penstock.config import ConsumerConfig, OffsetReset
from penstock.model import Endpoint, LogRange, Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from penstock.net.server import Listener, serve
from penstock.protocols.kafka.client.client import open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.fetch import ReadReplicas
from penstock.protocols.kafka.wire.fetch import (
    FetchResponse,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.scripted import ScriptedBroker, metadata
from tests.unit.kafka_client.test_fetch_sessions import batch

FIRST = Partition("events", 0)
LEADER, FOLLOWER = 1, 2
OUT_OF_RANGE, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH = 1, 6, 74, 75
LEASE_S = 60.0
CLIENT = KafkaOptions(rack="here", metadata_max_age_ms=int(LEASE_S * 1_000))
CONSUMER = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=50)


@dataclass
class Two:
    """A leader, which names the follower to whoever has a rack, and the follower; ``seen`` is who was read from."""

    network: MemoryNetwork
    end: int = 0
    epoch: int = 1
    leader: int = LEADER
    named: int = FOLLOWER
    known: tuple[int, ...] = (LEADER, FOLLOWER)
    listeners: dict[int, Listener] = field(default_factory=dict)
    seen: list[tuple[int, Any]] = field(default_factory=list)
    follower_says: FetchResponsePartition | None = None

    async def start(self, node: int) -> None:
        at = self.listeners[node].endpoint if node in self.listeners else Endpoint(f"b{node}", 0)
        script = ScriptedBroker({"Metadata": self._metadata, "Fetch": lambda request, _: self._fetch(node, request)})
        self.listeners[node] = await serve(script, at, network=self.network)

    def _metadata(self, request: Any, version: int) -> object:
        at = {node: listener.endpoint for node, listener in self.listeners.items() if node in self.known}
        return metadata(at, {FIRST.topic: {0: (self.leader, self.epoch)}})(request, version)

    def _fetch(self, node: int, request: Any) -> FetchResponse:
        asked = request.topics[0].partitions[0]
        self.seen.append((node, request))
        if node == self.leader and request.rack_id:
            part = FetchResponsePartition(preferred_read_replica=self.named, high_watermark=self.end)
        elif node != self.leader and self.follower_says is not None:
            part = self.follower_says
        else:
            records = batch(0, asked.fetch_offset, self.end) if asked.fetch_offset < self.end else b""
            part = FetchResponsePartition(high_watermark=self.end, records=records)
        return FetchResponse(responses=[FetchResponseTopic(topic=FIRST.topic, partitions=[part])])

    def asked(self) -> list[int]:
        """Who was asked since this was last called, neighbours once."""
        nodes = [node for node, _ in self.seen]
        self.seen.clear()
        return [node for at, node in enumerate(nodes) if at == 0 or nodes[at - 1] != node]


@asynccontextmanager
async def two(**given: Any) -> AsyncIterator[tuple[Two, ConsumerEngine]]:
    async def call(*_: object) -> None: ...

    made = Two(MemoryNetwork(lambda: 0.05), **given)
    for node in (LEADER, FOLLOWER):
        await made.start(node)
    bootstrap = [made.listeners[LEADER].endpoint]
    client = open_client(lambda dialect: AsyncioChannel(dialect, network=made.network), bootstrap, CLIENT)
    engine = ConsumerEngine(client, CONSUMER, call)
    await engine.assign({FIRST: 0})
    try:
        yield made, engine
    finally:
        await engine.close(5.0)
        for listener in made.listeners.values():
            await listener.close()


async def read(engine: ConsumerEngine, end: int) -> None:
    """Poll until ``end``; each record comes once."""
    while (at := engine.partitions.positions()[FIRST]) < end:
        assert await engine.ready(asyncio.get_running_loop().time() + 100)
        assert [each.offset for each in engine.take(1_000)] == list(range(at, engine.partitions.positions()[FIRST]))


def test_records_come_from_the_follower_that_the_leader_names() -> None:
    async def main() -> None:
        async with two(end=5) as (brokers, engine):
            await read(engine, 5)
            assert brokers.asked() == [LEADER, FOLLOWER]
            brokers.end = 9
            await read(engine, 9)
            assert brokers.asked() == [FOLLOWER]

    run(main())


def test_after_a_while_the_leader_is_asked_again_who_that_is() -> None:
    async def main() -> None:
        async with two(end=5) as (brokers, engine):
            await read(engine, 5)
            await passing(LEASE_S / 2)
            assert brokers.asked() == [LEADER, FOLLOWER]
            await passing(LEASE_S)
            assert brokers.asked() == [FOLLOWER, LEADER, FOLLOWER]

    run(main())


@pytest.mark.parametrize(
    "says",
    [
        FetchResponsePartition(error_code=OUT_OF_RANGE, high_watermark=-1),
        FetchResponsePartition(diverging_epoch=FetchResponseDivergingEpoch(epoch=0, end_offset=2)),
        FetchResponsePartition(error_code=NOT_LEADER, high_watermark=-1),
        FetchResponsePartition(error_code=UNKNOWN_EPOCH, high_watermark=-1),
    ],
    ids=["has not got so far", "has another past", "is none any more", "has not heard of the leader"],
)
def test_a_follower_in_trouble_is_left_alone_and_its_word_is_not_the_logs(says: FetchResponsePartition) -> None:
    async def main() -> None:
        async with two(end=5) as (brokers, engine):
            await read(engine, 5)
            brokers.follower_says, brokers.end = says, 9
            before = asyncio.get_running_loop().time()
            await read(engine, 9)  # neither from the first record again nor an error
            assert asyncio.get_running_loop().time() - before < 2.0
            assert {request.rack_id for node, request in brokers.seen if node == LEADER} >= {""}
            brokers.follower_says = None
            await passing(12.0)
            brokers.asked()
            await passing(1.0)
            assert brokers.asked() == [FOLLOWER]

    run(main())


def test_a_follower_that_dies_does_not_stop_reading() -> None:
    async def main() -> None:
        async with two(end=5) as (brokers, engine):
            await read(engine, 5)
            await brokers.listeners[FOLLOWER].close()
            brokers.end = 9
            before = asyncio.get_running_loop().time()
            await read(engine, 9)
            assert asyncio.get_running_loop().time() - before < 2.0
            await passing(100.0)  # the leader goes on naming it
            brokers.end = 12
            before = asyncio.get_running_loop().time()
            await read(engine, 12)
            assert asyncio.get_running_loop().time() - before < 2.0
            await brokers.start(FOLLOWER)
            await passing(30.0)
            brokers.asked()
            await passing(1.0)
            assert brokers.asked() == [FOLLOWER]

    run(main())


def test_a_follower_that_was_away_when_brokers_were_asked_for_is_asked_for() -> None:
    async def main() -> None:
        async with two(end=5, known=(LEADER,)) as (brokers, engine):
            await engine.client.topics([FIRST.topic])
            brokers.known = (LEADER, FOLLOWER)
            await read(engine, 5)
            assert brokers.asked() == [LEADER, FOLLOWER]

    run(main())


def test_a_follower_that_nobody_knows_does_not_stop_reading() -> None:
    async def main() -> None:
        async with two(end=5, named=77) as (brokers, engine):
            await read(engine, 5)
            assert brokers.asked() == [LEADER]

    run(main())


def test_under_a_new_leader_that_one_is_asked_first() -> None:
    async def main() -> None:
        async with two(end=5) as (brokers, engine):
            await read(engine, 5)
            brokers.asked()
            brokers.epoch += 1
            await engine.client.topics([FIRST.topic], fresh=True)
            await passing(1.0)
            assert brokers.asked()[-2:] == [LEADER, FOLLOWER]

    run(main())


def test_a_follower_is_not_asked_where_epochs_end() -> None:
    async def main() -> None:
        async with two(end=5) as (brokers, engine):
            await read(engine, 5)
            brokers.end = 9
            await read(engine, 9)
            epochs = {node: set() for node in (LEADER, FOLLOWER)}
            for node, request in brokers.seen:
                epochs[node].add(request.topics[0].partitions[0].last_fetched_epoch)
            assert epochs[FOLLOWER] == {-1}

    run(main())


def test_a_range_is_read_from_the_follower_too() -> None:
    async def main() -> None:
        async with two(end=50) as (brokers, engine):
            reading, found = RangeRead(engine.client, LogRange(FIRST.topic, 0, 7, 40)), 0
            await passing(5.0)  # the consumer has been sent there
            brokers.seen.clear()
            while (messages := await reading.next()) is not None:
                found += len(messages)
            assert found == 33
            assert {node for node, request in brokers.seen if request.session_epoch == -1} == {FOLLOWER}

    run(main())


def test_whom_a_leader_names_is_read_from_while_it_leads_and_for_so_long() -> None:
    replicas = ReadReplicas(10.0)
    assert replicas.node_id(FIRST, 1, 0.0) is None
    replicas.prefer(FIRST, FOLLOWER, 1, 0.0)
    assert replicas.node_id(FIRST, 1, 9.9) == FOLLOWER
    assert replicas.node_id(FIRST, 2, 9.9) is None
    assert replicas.node_id(FIRST, 1, 9.9) is None
    replicas.prefer(FIRST, FOLLOWER, 1, 10.0)
    assert replicas.node_id(FIRST, 1, 20.0) is None
    replicas.shun(FIRST, 20.0)
    assert not replicas.shunned([FIRST], 20.0)
    replicas.prefer(FIRST, FOLLOWER, 1, 20.0)
    replicas.shun(FIRST, 20.0)
    assert replicas.shunned([FIRST], 29.0)
    assert not replicas.shunned([FIRST], 30.0)
