"""Round trips: a client sends a question and waits for its answer before the next one; its latency and CPU.

Questions go to partition 0 of a topic, answers to partition 1. The same program answers all clients.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from bench.clients.small_reading import SILENCE_S, Seen, TrickleJob

__all__ = ["CASES", "PARTITIONS", "answer"]

PARTITIONS: Final = 2
PADDING: Final = b"x" * 80


def _question() -> bytes:
    return b"%020d" % time.monotonic_ns() + PADDING


def answer(job: TrickleJob) -> None:
    """Send every question back with confluent-kafka; it prints ``@ready``, and ends after the last question."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": job.bootstrap}
    reader = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False})
    writer = Producer({**settings, "linger.ms": 0, "acks": "all"})
    reader.assign([TopicPartition(job.topic, 0, 0)])
    print("@ready", flush=True)
    for _ in range(job.count):
        while (message := reader.poll(SILENCE_S)) is None or message.error():
            raise TimeoutError("no question came")
        writer.produce(job.topic, message.value(), partition=1)
        writer.flush()


def consumer(job: TrickleJob) -> Seen:
    """``send().result()``, then ``poll``."""
    from penstock import Consumer, Partition, Producer

    seen = Seen(job.count)
    address = f"kafka://{job.bootstrap}"
    with Producer(address, linger_ms=0) as writer, Consumer(address) as reader:
        reader.assign({Partition(job.topic, 1): 0})
        while True:
            writer.send(job.topic, _question(), partition=0)
            for message in reader.poll(SILENCE_S):
                if seen.add(message.value or b""):
                    return seen


def async_consumer(job: TrickleJob) -> Seen:
    """The same on an event loop."""

    async def run() -> Seen:
        from penstock import AsyncConsumer, AsyncProducer, Partition

        seen = Seen(job.count)
        address = f"kafka://{job.bootstrap}"
        async with AsyncProducer(address, linger_ms=0) as writer, AsyncConsumer(address) as reader:
            await reader.assign({Partition(job.topic, 1): 0})
            while True:
                await writer.send(job.topic, _question(), partition=0)
                for message in await reader.poll(SILENCE_S):
                    if seen.add(message.value or b""):
                        return seen

    return asyncio.run(run())


def confluent(job: TrickleJob) -> Seen:
    """``produce()`` and ``flush()``, then ``poll()``."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    seen = Seen(job.count)
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": job.bootstrap}
    reader = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False})
    writer = Producer({**settings, "linger.ms": 0, "acks": "all", "enable.idempotence": True})
    reader.assign([TopicPartition(job.topic, 1, 0)])
    while True:
        writer.produce(job.topic, _question(), partition=0)
        writer.flush()
        message = reader.poll(SILENCE_S)
        if message is None or message.error():
            raise TimeoutError("no answer came")
        if seen.add(message.value() or b""):
            return seen


def aiokafka(job: TrickleJob) -> Seen:
    """``send()``, then ``getone()``."""

    async def run() -> Seen:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]

        seen = Seen(job.count)
        writer = AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all", enable_idempotence=True, linger_ms=0)
        reader = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, enable_auto_commit=False)
        await writer.start()
        await reader.start()
        try:
            place = TopicPartition(job.topic, 1)
            reader.assign([place])
            reader.seek(place, 0)
            while True:
                await writer.send(job.topic, _question(), partition=0)
                if seen.add((await asyncio.wait_for(reader.getone(), SILENCE_S)).value):
                    return seen
        finally:
            await reader.stop()
            await writer.stop()

    return asyncio.run(run())


CASES: Mapping[str, str] = {
    "penstock": "consumer",
    "penstock, asynchronous": "async_consumer",
    "confluent-kafka": "confluent",
    "aiokafka": "aiokafka",
}
