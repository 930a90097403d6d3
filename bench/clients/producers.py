"""Producers: ours by record and by batch, and confluent-kafka with the same batches, linger and guarantees."""

from __future__ import annotations

import asyncio
from itertools import cycle, islice

from bench.clients.writing import BATCH_BYTES, BUFFER_BYTES, IN_FLIGHT, LINGER_MS, Instant, ProduceJob, Spent

__all__ = ["async_send", "confluent", "send", "send_batch"]

ARROW_ROWS = 50_000
_POLL_EVERY = 10_000

OURS = {
    "batch_size_bytes": BATCH_BYTES,
    "linger_ms": LINGER_MS,
    "buffer_memory_bytes": BUFFER_BYTES,
    "max_in_flight": IN_FLIGHT,
}


def send(job: ProduceJob) -> Spent:
    """``Producer.send`` from synchronous code."""
    from penstock import Producer, kernels

    kernels.load()
    with Producer(f"kafka://{job.bootstrap}", **OURS) as producer:
        producer.send(job.topic, key=b"warm", value=b"up")
        producer.flush()
        one = producer.send
        begun = Instant.now()
        for key, value in islice(cycle(job.pairs), job.count):
            one(job.topic, key=key, value=value)
        producer.flush()
        return begun.passed()


def async_send(job: ProduceJob) -> Spent:
    """``AsyncProducer.send`` from a coroutine."""
    return asyncio.run(_async_send(job))


async def _async_send(job: ProduceJob) -> Spent:
    from penstock import AsyncProducer, kernels

    kernels.load()
    async with AsyncProducer(f"kafka://{job.bootstrap}", **OURS) as producer:
        await producer.send(job.topic, key=b"warm", value=b"up")
        await producer.flush()
        one = producer.send
        begun = Instant.now()
        for key, value in islice(cycle(job.pairs), job.count):
            await one(job.topic, key=key, value=value)
        await producer.flush()
        return begun.passed()


def send_batch(job: ProduceJob) -> Spent:
    """``Producer.send_batch`` of Arrow columns; building them is not counted, since an application already has them."""
    import pyarrow as pa

    from penstock import Producer, kernels

    kernels.load()
    keys, values = zip(*job.pairs[:ARROW_ROWS], strict=True)
    rows = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    with Producer(f"kafka://{job.bootstrap}", **OURS) as producer:
        producer.send(job.topic, key=b"warm", value=b"up")
        producer.flush()
        begun = Instant.now()
        left = job.count
        while left:
            producer.send_batch(job.topic, rows.slice(0, left))
            left -= min(left, len(rows))
        producer.flush()
        return begun.passed()


def confluent(job: ProduceJob) -> Spent:
    """``produce()`` without delivery callbacks, which cost a Python call per record. End offsets are compared."""
    from confluent_kafka import Producer

    producer = Producer({
        "bootstrap.servers": job.bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "batch.size": BATCH_BYTES,
        "batch.num.messages": 1_000_000,  # only the size limits a batch, as in ours
        "linger.ms": LINGER_MS,
        "max.in.flight.requests.per.connection": IN_FLIGHT,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": BUFFER_BYTES >> 10,
        "partitioner": "murmur2_random",
    })  # fmt: skip
    producer.produce(job.topic, b"up", b"warm")
    producer.flush(30)
    one, topic = producer.produce, job.topic
    begun = Instant.now()
    for number, (key, value) in enumerate(islice(cycle(job.pairs), job.count)):
        while True:
            try:
                one(topic, value, key)
                break
            except BufferError:
                producer.poll(0.005)
        if not number % _POLL_EVERY:
            producer.poll(0)
    left = producer.flush(120)
    spent = begun.passed()
    if left:
        raise RuntimeError(f"{left} records were not acknowledged")
    return spent
