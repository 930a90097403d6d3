"""Fresh processes: when the first record was there, and when all were, by the machine's monotonic clock."""

from __future__ import annotations

import time

__all__ = ["confluent", "consumer", "messages"]

SILENCE_S = 30.0
PARTITIONS = 4


def consumer(bootstrap: str, topic: str, count: int) -> tuple[float, float]:
    """Columns of each poll."""
    from penstock import Consumer, Partition

    with Consumer(f"kafka://{bootstrap}") as reader:
        reader.assign({Partition(topic, partition): 0 for partition in range(PARTITIONS)})
        first, left = 0.0, count
        while left > 0:
            batch = reader.poll(SILENCE_S)
            if not batch:
                raise TimeoutError(f"{left} did not come")
            first = first or time.monotonic()
            left -= len(batch)
        return first, time.monotonic()


def messages(bootstrap: str, topic: str, count: int) -> tuple[float, float]:
    """A Python object a record."""
    from penstock import Consumer, Partition

    with Consumer(f"kafka://{bootstrap}") as reader:
        reader.assign({Partition(topic, partition): 0 for partition in range(PARTITIONS)})
        first, left = 0.0, count
        while left > 0:
            for message in reader.poll(SILENCE_S):
                first = first or time.monotonic()
                left -= message.offset >= 0
        return first, time.monotonic()


def confluent(bootstrap: str, topic: str, count: int) -> tuple[float, float]:
    """``consume()`` of up to 10,000 messages at a time."""
    from confluent_kafka import Consumer, TopicPartition

    from bench.clients.confluent import TUNED

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        **TUNED,
    }
    reader = Consumer(settings)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    first, left = 0.0, count
    while left > 0:
        found = reader.consume(10_000, SILENCE_S)
        if not found:
            raise TimeoutError(f"{left} did not come")
        first = first or time.monotonic()
        left -= len(found)
    ended = time.monotonic()
    reader.close()
    return first, ended
