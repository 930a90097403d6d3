"""One group, two clients: ours and librdkafka's share a topic's partitions, whoever of them leads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.interfaces import GroupOptions, Verdict
from penstock.model import Assignment
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.protocols.kafka.client.classic_member import KafkaMembership
from penstock.protocols.kafka.client.client import KafkaClient, open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from tests.unit.kafka_client.mock_brokers import MockBrokers
from tests.unit.kafka_client.scripted import go


class Theirs:
    """A librdkafka consumer that polls in a thread of its own."""

    def __init__(self, servers: str) -> None:
        self.assigned: list[int] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "group",
                "partition.assignment.strategy": "range",
                "session.timeout.ms": 1_500,
                "heartbeat.interval.ms": 50,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        self._consumer.subscribe(["events"], on_assign=self._assign)
        while not self._stop.is_set():
            self._consumer.poll(0.02)
        self._consumer.close()

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer
        self.assigned = sorted(partition.partition for partition in partitions)


class Ours:
    """What the engine does with a membership: heartbeats, and a join when one says so."""

    def __init__(self, client: KafkaClient) -> None:
        options = GroupOptions("group", session_timeout_ms=1_500, rebalance_timeout_ms=1_500)
        self.member: KafkaMembership = client.membership(options)
        self.assignment = Assignment(-1, frozenset())

    @property
    def assigned(self) -> list[int]:
        return sorted(partition.id for partition in self.assignment.partitions)

    async def join(self) -> None:
        self.assignment = await self.member.join(["events"], [], "test")

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if (await self.member.heartbeat()).verdict is not Verdict.STEADY:
                await self.join()


@pytest.mark.slow
def test_partitions_are_shared_and_come_back() -> None:
    """We lead; the other way round the mock answers a sync with a null, which the protocol does not have there."""

    async def body() -> None:
        with MockBrokers() as brokers:
            brokers.topic("events", 4)
            client = open_client(AsyncioChannel, brokers.bootstrap, KafkaOptions(retry_backoff_ms=10))
            theirs, ours = Theirs(brokers.servers), Ours(client)
            try:
                await ours.join()
                assert ours.assigned == [0, 1, 2, 3]
                theirs.start()
                await ours.until(lambda: len(ours.assigned) == len(theirs.assigned) == 2)
                assert sorted(ours.assigned + theirs.assigned) == [0, 1, 2, 3]
                await asyncio.to_thread(theirs.close)
                await ours.until(lambda: ours.assigned == [0, 1, 2, 3])
            finally:
                await asyncio.to_thread(theirs.close)
                await client.close()

    go(body())
