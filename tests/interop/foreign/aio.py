"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.interop.foreign.face import Foreign, Sample


def produce(bootstrap: str, topic: str, samples: Sequence[Sample], codec: str) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic, each.value, each.key, timestamp_ms=each.timestamp_ms, headers=list(each.headers)
                )
                for each in samples
            ]
            await asyncio.wait_for(asyncio.gather(*sent), 20)
        finally:
            await producer.stop()

    asyncio.run(work())


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[Sample]:
    async def work() -> list[Sample]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        found: list[Sample] = []
        try:
            while len(found) < count:
                message = await asyncio.wait_for(consumer.getone(), 15)
                found.append(Sample(message.key, message.value, tuple(message.headers), message.timestamp))
            await consumer.commit()
        finally:
            await consumer.stop()
        return found

    return asyncio.run(work())


AIOKAFKA = Foreign("aiokafka", True, produce, consume)
