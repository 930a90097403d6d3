"""Clients that write or read steadily and measure how long each partition stalled; ours and the rival's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pyarrow as pa

import penstock

__all__ = ["READ", "READ_RIVAL", "WATCHERS", "WRITE", "WRITE_ARROW", "WRITE_RIVAL", "Stalls"]

WRITE = "penstock send"
WRITE_ARROW = "penstock send_batch (Arrow)"
WRITE_RIVAL = "confluent-kafka produce()"
READ = "penstock Consumer"
READ_RIVAL = "confluent-kafka consume()"

_PAUSE_S = 0.02
_ROWS = 5


class Stalls:
    """``longest`` is the longest time between two events of one partition since the last ``forget``."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self._lock = threading.Condition()
        self.longest = 0.0

    def seen(self, partition: int) -> None:
        """A record of the partition was acknowledged, or read."""
        now = time.monotonic()
        with self._lock:
            self.longest = max(self.longest, now - self._last.get(partition, now))
            self._last[partition] = now
            self._lock.notify_all()

    def await_all(self, partitions: int, within_s: float) -> None:
        """Wait until each partition was seen, since stalls cannot be measured before that. Raises TimeoutError."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._last) == partitions, within_s):
                raise TimeoutError(f"{len(self._last)} of {partitions} partitions were seen in {within_s:.0f} s")

    def forget(self) -> None:
        """Start again without earlier stalls."""
        with self._lock:
            self.longest = 0.0


def _write(servers: str, topic: str, partitions: int, over: threading.Event, stalls: Stalls) -> None:
    def stored(delivery: Any, partition: int) -> None:
        if delivery.exception(0) is None:
            stalls.seen(partition)

    with penstock.Producer(f"kafka://{servers}") as producer:
        while not over.wait(_PAUSE_S):
            for each in range(partitions):
                delivery = producer.send(topic, b"x", partition=each)
                delivery.add_done_callback(lambda done, each=each: stored(done, each))


def _write_arrow(servers: str, topic: str, partitions: int, over: threading.Event, stalls: Stalls) -> None:
    def stored(delivery: Any, partition: int) -> None:
        if delivery.exception(0) is None:
            stalls.seen(partition)

    with penstock.Producer(f"kafka://{servers}") as producer:
        while not over.wait(_PAUSE_S):
            for each in range(partitions):
                places = pa.array([each] * _ROWS, pa.int32())
                rows = pa.table({"value": pa.array([b"x"] * _ROWS, pa.binary()), "partition": places})
                producer.send_batch(topic, rows).add_done_callback(lambda done, each=each: stored(done, each))


def _write_rival(servers: str, topic: str, partitions: int, over: threading.Event, stalls: Stalls) -> None:
    def stored(error: object, message: Any) -> None:
        if error is None:
            stalls.seen(message.partition())

    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0}
    producer = confluent_kafka.Producer(settings)
    while not over.wait(_PAUSE_S):
        for each in range(partitions):
            producer.produce(topic, b"x", partition=each, on_delivery=stored)
        producer.poll(0)
    producer.flush(30)


def _read(servers: str, topic: str, partitions: int, over: threading.Event, stalls: Stalls) -> None:
    with penstock.Consumer(f"kafka://{servers}", auto_offset_reset="latest") as consumer:
        consumer.assign([penstock.Partition(topic, each) for each in range(partitions)])
        while not over.is_set():
            batch = consumer.poll(timeout_s=0.1)
            for partition in batch.next_offsets if len(batch) else ():
                stalls.seen(partition.id)


def _read_rival(servers: str, topic: str, partitions: int, over: threading.Event, stalls: Stalls) -> None:
    settings = {"bootstrap.servers": servers, "group.id": "bench", "auto.offset.reset": "latest", "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, each) for each in range(partitions)])
    while not over.is_set():
        for message in consumer.consume(1_000, 0.1):
            if message.error() is None:
                stalls.seen(message.partition())
    consumer.close()


WATCHERS: dict[str, Callable[[str, str, int, threading.Event, Stalls], None]] = {
    WRITE: _write,
    WRITE_ARROW: _write_arrow,
    WRITE_RIVAL: _write_rival,
    READ: _read,
    READ_RIVAL: _read_rival,
}
