"""aiokafka: pure Python with a record parser in C."""

from __future__ import annotations

import asyncio

from bench.clients.reading import POLL_AT_MOST, SILENCE_S, Job, to_arrow
from bench.metering import Meter

__all__ = ["consume"]


def consume(job: Job, meter: Meter) -> None:
    """``getmany()`` of 10,000 messages at a time; CRCs are checked by default."""
    asyncio.run(_consume(job, meter))


async def _consume(job: Job, meter: Meter) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 << 20,
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(job.topic, partition) for partition in job.partitions])
        await consumer.seek_to_beginning()
        while meter.records < job.count:
            found = await consumer.getmany(timeout_ms=int(SILENCE_S * 1000), max_records=POLL_AT_MOST)
            if not found:
                raise TimeoutError(f"nothing came for {SILENCE_S} s after {meter.records} records")
            for messages in found.values():
                meter.add(
                    to_arrow(
                        [message.key for message in messages],
                        [message.value for message in messages],
                        [message.offset for message in messages],
                        [message.timestamp for message in messages],
                    )
                )
    finally:
        await consumer.stop()
