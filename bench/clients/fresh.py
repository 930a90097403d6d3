"""Fresh processes: the times of the first and the last record, by the machine's monotonic clock; and idle consumers.

Imports are inside the functions, because they are part of the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer as ConfluentConsumer

    from penstock import Consumer

__all__ = ["IDLE", "PARTITIONS", "READERS"]

SILENCE_S = 30.0
POLL_S = 5.0
"""Timeout of each poll of an idle consumer."""

PARTITIONS = 4

Times = tuple[float, float]
"""The times of the first and the last record."""


@contextmanager
def _ours(bootstrap: str, topic: str) -> Iterator[Consumer]:
    from penstock import Consumer, Partition

    with Consumer(f"kafka://{bootstrap}") as reader:
        reader.assign({Partition(topic, partition): 0 for partition in range(PARTITIONS)})
        yield reader


def consumer(bootstrap: str, topic: str, count: int) -> Times:
    """Our consumer, with the columns of each poll."""
    with _ours(bootstrap, topic) as reader:
        first, left = 0.0, count
        while left > 0:
            batch = reader.poll(SILENCE_S)
            if not batch:
                raise TimeoutError(f"{left} did not come")
            first = first or time.monotonic()
            left -= len(batch)
        return first, time.monotonic()


def messages(bootstrap: str, topic: str, count: int) -> Times:
    """Our consumer, with a Python object per record."""
    with _ours(bootstrap, topic) as reader:
        first, left = 0.0, count
        while left > 0:
            batch = reader.poll(SILENCE_S)
            if not batch:
                raise TimeoutError(f"{left} did not come")
            for message in batch:
                first = first or time.monotonic()
                left -= message.offset >= 0
        return first, time.monotonic()


def _confluent(bootstrap: str, topic: str, **more: str | int | float | bool) -> ConfluentConsumer:
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, str | int | float | bool] = {"group.id": "unused", "enable.auto.commit": False, **more}
    reader = Consumer({"bootstrap.servers": bootstrap, **settings})
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    return reader


def _consumed(reader: ConfluentConsumer, count: int) -> Times:
    first, left = 0.0, count
    while left > 0:
        found = reader.consume(min(10_000, left), SILENCE_S)
        if not found:
            raise TimeoutError(f"{left} did not come")
        first = first or time.monotonic()
        left -= len(found)
    ended = time.monotonic()
    reader.close()
    return first, ended


def confluent(bootstrap: str, topic: str, count: int) -> Times:
    """``consume()`` of up to 10,000 messages at a time, with its fastest settings."""
    from bench.clients.confluent_tuned import TUNED

    return _consumed(_confluent(bootstrap, topic, **TUNED), count)


def confluent_defaults(bootstrap: str, topic: str, count: int) -> Times:
    """The same with its default settings, which prefetch less."""
    return _consumed(_confluent(bootstrap, topic), count)


def aiokafka(bootstrap: str, topic: str, count: int) -> Times:
    """``getmany()`` of up to 10,000 messages at a time."""
    import asyncio

    async def read() -> Times:
        from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]

        reader = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=4 << 20
        )
        await reader.start()
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        reader.assign(partitions)
        for partition in partitions:
            reader.seek(partition, 0)
        first, left = 0.0, count
        while left > 0:
            found = await reader.getmany(timeout_ms=int(SILENCE_S * 1000), max_records=10_000)
            if not found:
                raise TimeoutError(f"{left} did not come")
            first = first or time.monotonic()
            left -= sum(map(len, found.values()))
        ended = time.monotonic()
        await reader.stop()
        return first, ended

    return asyncio.run(read())


def idle_consumer(bootstrap: str, topic: str, seconds: float) -> float:
    """CPU of a consumer that waits and gets no records, in percent of a core."""
    with _ours(bootstrap, topic) as reader:
        return _idle(lambda: len(reader.poll(POLL_S)), seconds)


def idle_confluent(bootstrap: str, topic: str, seconds: float) -> float:
    """The same for confluent-kafka."""
    reader = _confluent(bootstrap, topic)
    return _idle(lambda: len(reader.consume(10_000, POLL_S)), seconds)


def _idle(poll: Callable[[], int], seconds: float) -> float:
    poll()  # connects and polls once before the measurement
    begun, used = time.monotonic(), time.process_time()
    while time.monotonic() - begun < seconds:
        if poll():
            raise ValueError("the topic is not empty")
    return 100 * (time.process_time() - used) / (time.monotonic() - begun)


READERS: dict[str, Callable[[str, str, int], Times]] = {
    "penstock Consumer": consumer,
    "penstock Consumer, messages": messages,
    "confluent-kafka": confluent,
    "confluent-kafka, its defaults": confluent_defaults,
    "aiokafka": aiokafka,
}
IDLE: dict[str, Callable[[str, str, float], float]] = {
    "penstock Consumer": idle_consumer,
    "confluent-kafka": idle_confluent,
}
