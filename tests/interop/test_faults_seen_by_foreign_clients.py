"""Faults as librdkafka and aiokafka meet them: the broker of `penstock.testing` is for anybody's client."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client import RangeReader
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.testing import Broker
from tests.interop.foreign import CLIENTS, Foreign, samples

pytestmark = pytest.mark.interop

SENT = samples(50)
IDEMPOTENT = [client for client in CLIENTS if str(client) != "kafka-python"]


def stored(broker: Broker) -> list[bytes | None]:
    partition = Partition("t", 0)
    with RangeReader(broker.address) as reader:
        end = reader.offsets({partition: OffsetSpec(name=Offset.LATEST)})[partition].offset
        return [record.value for batch in reader.read(LogRange("t", 0, 0, end)) for record in batch]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_producer_tries_again_after_a_retriable_error(broker: Broker, client: Foreign) -> None:
    broker.create_topic("t")
    sent = client.sendable(SENT)
    broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    client.produce(broker.bootstrap, "t", sent, "none")
    assert broker.faults.seen("Produce") >= 3
    assert stored(broker) == [each.value for each in sent]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("client", IDEMPOTENT, ids=str)
def test_an_idempotent_producer_stores_nothing_twice(broker: Broker, client: Foreign, moment: str) -> None:
    broker.create_topic("t")
    sent = client.sendable(SENT)
    broker.faults.drop("Produce", moment=moment)  # type: ignore[arg-type]
    client.produce(broker.bootstrap, "t", sent, "none")
    assert broker.faults.seen("Produce") >= 2
    assert stored(broker) == [each.value for each in sent]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ],
)
def test_a_consumer_finds_its_way_past_a_passing_error(broker: Broker, client: Foreign, api: str, error: str) -> None:
    broker.create_topic("t")
    sent = client.sendable(SENT)
    client.produce(broker.bootstrap, "t", sent, "none")
    broker.faults.error(api, error)
    assert client.consume(broker.bootstrap, "t", "g", len(sent)) == sent
    assert broker.faults.seen(api) >= 2


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_fetch_that_is_slow_or_hung_up_on_brings_everything(broker: Broker, client: Foreign) -> None:
    broker.create_topic("t")
    sent = client.sendable(SENT)
    client.produce(broker.bootstrap, "t", sent, "none")
    broker.faults.delay("Fetch", 0.2)
    broker.faults.drop("Fetch")
    assert client.consume(broker.bootstrap, "t", "g", len(sent)) == sent
    assert broker.faults.seen("Fetch") >= 2


@pytest.mark.parametrize("fault", ["drop", "error"])
def test_a_member_survives_its_heartbeats(broker: Broker, fault: str) -> None:
    from aiokafka import AIOKafkaConsumer

    broker.create_topic("t")

    async def work() -> None:
        consumer = AIOKafkaConsumer("t", bootstrap_servers=broker.bootstrap, group_id="g", heartbeat_interval_ms=50)
        await consumer.start()
        try:
            api = "Heartbeat" if fault == "drop" else "JoinGroup"
            before = broker.faults.seen(api)
            if fault == "drop":
                broker.faults.drop("Heartbeat")
            else:
                broker.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS")
            while broker.faults.seen(api) < before + (2 if fault == "drop" else 1) or not consumer.assignment():
                await consumer.end_offsets([partition])
        finally:
            await consumer.stop()

    from aiokafka import TopicPartition

    partition = TopicPartition("t", 0)
    asyncio.run(asyncio.wait_for(work(), 30))
