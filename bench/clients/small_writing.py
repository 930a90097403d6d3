"""Senders of single records: each function sends ``count`` records and returns seconds and CPU of its process.

They wait for every acknowledgement before the next record, or have a hundred in flight. No client lingers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.clients import small_java
from bench.clients.writing import Instant, Spent

__all__ = ["CASES", "WARM", "SmallJob"]

WARM = 300
"""Records that are sent before the clock starts, unless the job has another number."""

FLYING = 100


@dataclass(frozen=True, slots=True)
class SmallJob:
    """Send ``count`` records with ``value`` to one topic, after ``warm`` records for the warm-up."""

    bootstrap: str
    topic: str
    value: bytes
    count: int
    warm: int = WARM


def send_and_wait(job: SmallJob) -> Spent:
    """``Producer.send().result()``."""
    from penstock import Producer

    with Producer(f"kafka://{job.bootstrap}", linger_ms=0) as producer:
        for _ in range(job.warm):
            producer.send(job.topic, value=job.value).result()
        begun = Instant.now()
        for _ in range(job.count):
            producer.send(job.topic, value=job.value).result()
        return begun.passed()


def async_send_and_wait(job: SmallJob) -> Spent:
    """``await (await AsyncProducer.send())``."""

    async def run() -> Spent:
        from penstock import AsyncProducer

        async with AsyncProducer(f"kafka://{job.bootstrap}", linger_ms=0) as producer:
            for _ in range(job.warm):
                await (await producer.send(job.topic, value=job.value))
            begun = Instant.now()
            for _ in range(job.count):
                await (await producer.send(job.topic, value=job.value))
            return begun.passed()

    return asyncio.run(run())


def flying(job: SmallJob) -> Spent:
    """A hundred deliveries open at any time."""
    from penstock import Producer

    with Producer(f"kafka://{job.bootstrap}", linger_ms=0) as producer:
        for _ in range(job.warm):
            producer.send(job.topic, value=job.value).result()
        begun = Instant.now()
        waiting = deque([producer.send(job.topic, value=job.value) for _ in range(FLYING)])
        for _ in range(job.count - FLYING):
            waiting.popleft().result()
            waiting.append(producer.send(job.topic, value=job.value))
        for delivery in waiting:
            delivery.result()
        return begun.passed()


def confluent(job: SmallJob) -> Spent:
    """``produce()`` and ``flush()``."""
    producer = _confluent(job)
    begun = Instant.now()
    for _ in range(job.count):
        producer.produce(job.topic, job.value)
        producer.flush()
    return begun.passed()


def confluent_flying(job: SmallJob) -> Spent:
    """A hundred in flight at any time, counted by delivery callbacks."""
    producer = _confluent(job)
    done = 0

    def count(error: object, message: object) -> None:
        nonlocal done
        done += 1

    begun = Instant.now()
    for number in range(job.count):
        while number - done >= FLYING:
            producer.poll(1)
        producer.produce(job.topic, job.value, callback=count)
        producer.poll(0)
    producer.flush()
    return begun.passed()


def _confluent(job: SmallJob):  # type: ignore[no-untyped-def]
    from confluent_kafka import Producer

    producer = Producer({
        "bootstrap.servers": job.bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 0,
    })  # fmt: skip
    for _ in range(job.warm):
        producer.produce(job.topic, job.value)
        producer.flush()
    return producer


def aiokafka(job: SmallJob) -> Spent:
    """``send_and_wait()``."""

    async def run() -> Spent:
        producer = await _aiokafka(job)
        try:
            begun = Instant.now()
            for _ in range(job.count):
                await producer.send_and_wait(job.topic, job.value)
            return begun.passed()
        finally:
            await producer.stop()

    return asyncio.run(run())


def aiokafka_flying(job: SmallJob) -> Spent:
    """A hundred futures open at any time."""

    async def run() -> Spent:
        producer = await _aiokafka(job)
        try:
            begun = Instant.now()
            waiting = deque([await producer.send(job.topic, job.value) for _ in range(FLYING)])
            for _ in range(job.count - FLYING):
                await waiting.popleft()
                waiting.append(await producer.send(job.topic, job.value))
            await asyncio.gather(*waiting)
            return begun.passed()
        finally:
            await producer.stop()

    return asyncio.run(run())


async def _aiokafka(job: SmallJob):  # type: ignore[no-untyped-def]
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    producer = AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all", enable_idempotence=True, linger_ms=0)
    await producer.start()
    for _ in range(job.warm):
        await producer.send_and_wait(job.topic, job.value)
    return producer


def kafka_python(job: SmallJob) -> Spent:
    """``send().get()``."""
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    producer = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all", linger_ms=0)
    for _ in range(job.warm):
        producer.send(job.topic, job.value).get(30)
    begun = Instant.now()
    for _ in range(job.count):
        producer.send(job.topic, job.value).get(30)
    spent = begun.passed()
    producer.close()
    return spent


def java(job: SmallJob) -> Spent:
    """``send().get()``."""
    return _java("send", job)


def java_flying(job: SmallJob) -> Spent:
    """A hundred futures open at any time."""
    return _java("flying", job)


def _java(kind: str, job: SmallJob) -> Spent:
    size = len(job.value)
    return small_java.spent(kind, job.bootstrap, job.topic, count=job.count, warm=job.warm, size=size)


CASES: Mapping[str, Sequence[str]] = {
    "send and wait": (
        "penstock Producer", "send_and_wait",
        "penstock AsyncProducer", "async_send_and_wait",
        "confluent-kafka", "confluent",
        "aiokafka", "aiokafka",
        "kafka-python", "kafka_python",
        "Java", "java",
    ),
    "a hundred in flight": (
        "penstock Producer", "flying",
        "confluent-kafka", "confluent_flying",
        "aiokafka", "aiokafka_flying",
        "Java", "java_flying",
    ),
}  # fmt: skip
"""The cases of each variant; each is followed by the name of its function."""
