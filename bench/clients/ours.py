"""penstock's own readers, with their defaults. The kernel is loaded first, since start-up is measured separately."""

from __future__ import annotations

import asyncio

from bench.clients.reading import SILENCE_S, Job
from bench.metering import Meter

__all__ = ["async_consumer", "consumer", "range_reader", "range_reader_all"]

COLUMNS = ("key", "value", "offset", "timestamp")
"""The columns that rivals build. Our consumers decode every column; this only saves them topic and partition."""


def range_reader(job: Job, meter: Meter) -> None:
    """Exact ranges, partition after partition, as in a Spark task."""
    from penstock import LogRange, RangeReader, kernels

    kernels.load()
    each = job.count // len(job.partitions)
    with RangeReader(f"kafka://{job.bootstrap}") as reader:
        for partition in job.partitions:
            for batch in reader.read(LogRange(job.topic, partition, 0, each), columns=COLUMNS):
                meter.add(batch.to_arrow(COLUMNS))


def range_reader_all(job: Job, meter: Meter) -> None:
    """The same with every column: topic, partition, timestampType and headers too."""
    from penstock import LogRange, RangeReader, kernels

    kernels.load()
    each = job.count // len(job.partitions)
    with RangeReader(f"kafka://{job.bootstrap}") as reader:
        for partition in job.partitions:
            for batch in reader.read(LogRange(job.topic, partition, 0, each)):
                meter.add(batch.to_arrow())


def consumer(job: Job, meter: Meter) -> None:
    """The synchronous consumer, without a group."""
    from penstock import Consumer, Partition, kernels

    kernels.load()
    with Consumer(f"kafka://{job.bootstrap}") as reader:
        reader.assign({Partition(job.topic, partition): 0 for partition in job.partitions})
        while meter.records < job.count:
            batch = reader.poll(SILENCE_S)
            if not batch:
                raise TimeoutError(f"nothing came for {SILENCE_S} s after {meter.records} records")
            meter.add(batch.to_arrow(COLUMNS))


def async_consumer(job: Job, meter: Meter) -> None:
    """The consumer for asyncio, without a group."""
    asyncio.run(_async_consumer(job, meter))


async def _async_consumer(job: Job, meter: Meter) -> None:
    from penstock import AsyncConsumer, Partition, kernels

    kernels.load()
    async with AsyncConsumer(f"kafka://{job.bootstrap}") as reader:
        await reader.assign({Partition(job.topic, partition): 0 for partition in job.partitions})
        while meter.records < job.count:
            batch = await reader.poll(SILENCE_S)
            if not batch:
                raise TimeoutError(f"nothing came for {SILENCE_S} s after {meter.records} records")
            meter.add(batch.to_arrow(COLUMNS))
