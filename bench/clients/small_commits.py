"""Members of a group that commit each record before they take the next one: seconds and CPU of their process.

The records are written before. The clock runs from the first record after the warm-up to the last commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from bench.clients import small_java
from bench.clients.writing import Instant, Spent

__all__ = ["CASES", "WARM", "CommitJob"]

WARM = 100
SILENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class CommitJob:
    """Read ``count`` records after ``warm`` ones for the warm-up, and commit each; ``group`` has no other member."""

    bootstrap: str
    topic: str
    group: str
    count: int
    warm: int = WARM


def consumer(job: CommitJob) -> Spent:
    """``poll(max_records=1)`` and ``commit(batch)``."""
    from penstock import Consumer

    address = f"kafka://{job.bootstrap}/{job.topic}"
    with Consumer(address, group=job.group, enable_auto_commit=False, auto_offset_reset="earliest") as reader:
        begun = Instant.now()
        for number in range(job.warm + job.count):
            if number == job.warm:
                begun = Instant.now()
            batch = reader.poll(SILENCE_S, max_records=1)
            if not batch:
                raise TimeoutError(f"{number} came")
            reader.commit(batch)
        return begun.passed()


def confluent(job: CommitJob) -> Spent:
    """``poll()`` and ``commit(asynchronous=False)``."""
    from confluent_kafka import Consumer

    reader = Consumer({
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })  # fmt: skip
    reader.subscribe([job.topic])
    begun = Instant.now()
    for number in range(job.warm + job.count):
        if number == job.warm:
            begun = Instant.now()
        message = reader.poll(SILENCE_S)
        if message is None or message.error():
            raise TimeoutError(f"{number} came")
        reader.commit(message=message, asynchronous=False)
    spent = begun.passed()
    reader.close()
    return spent


def aiokafka(job: CommitJob) -> Spent:
    """``getone()`` and ``commit()``."""

    async def run() -> Spent:
        from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]

        reader = AIOKafkaConsumer(
            job.topic,
            bootstrap_servers=job.bootstrap,
            group_id=job.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await reader.start()
        try:
            begun = Instant.now()
            for number in range(job.warm + job.count):
                if number == job.warm:
                    begun = Instant.now()
                await asyncio.wait_for(reader.getone(), SILENCE_S)
                await reader.commit()
            return begun.passed()
        finally:
            await reader.stop()

    return asyncio.run(run())


def java(job: CommitJob) -> Spent:
    """``poll()`` with ``max.poll.records=1`` and ``commitSync()``."""
    return small_java.spent("commit", job.bootstrap, job.topic, count=job.count, warm=job.warm)


CASES: Mapping[str, str] = {
    "penstock Consumer": "consumer",
    "confluent-kafka": "confluent",
    "aiokafka": "aiokafka",
    "Java": "java",
}
