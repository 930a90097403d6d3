"""Transactional producers and readers of other people, each with one small face."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

GROUP = "offsets-of-transactions"


@dataclass(frozen=True, slots=True)
class Part:
    """One transaction: what it writes, whether it commits, which offset of partition 0 it wants to commit."""

    values: Sequence[bytes]
    commit: bool
    offset: int | None = None


def confluent(bootstrap: str, topic: str, parts: Sequence[Part]) -> None:
    """librdkafka does them one after the other."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"confluent-{topic}"})
    producer.init_transactions(20)
    group = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP}).consumer_group_metadata()
    for part in parts:
        producer.begin_transaction()
        for value in part.values:
            producer.produce(topic, value)
        if part.offset is not None:
            producer.send_offsets_to_transaction([Place(topic, 0, part.offset)], group, 20)
        producer.flush(20)
        (producer.commit_transaction if part.commit else producer.abort_transaction)(20)


def aio(bootstrap: str, topic: str, parts: Sequence[Part]) -> None:
    """aiokafka, which knows the first version of the protocol only."""

    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"aio-{topic}")
        await producer.start()
        try:
            for part in parts:
                await producer.begin_transaction()
                for value in part.values:
                    await producer.send_and_wait(topic, value)
                if part.offset is not None:
                    await producer.send_offsets_to_transaction({TopicPartition(topic, 0): part.offset}, GROUP)
                await (producer.commit_transaction() if part.commit else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(work(), 60))


def read_confluent(bootstrap: str, topic: str, count: int, *, committed: bool = True) -> list[bytes]:
    """``count`` values, and all that come with them until the end of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        # A look behind the last: what should not be there would come at once.
        while (message := consumer.poll(20 if len(found) < count else 1)) is not None:
            assert message.error() is None, message.error()
            found.append(message.value())
    finally:
        consumer.close()
    return found


def read_aio(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The same by aiokafka."""

    async def work() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=uuid.uuid4().hex,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        found: list[bytes] = []
        try:
            while len(found) < count:
                found.append((await asyncio.wait_for(consumer.getone(), 20)).value)
            for late in (await consumer.getmany(timeout_ms=1_000)).values():
                found += [message.value for message in late]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(work())
