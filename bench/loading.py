"""Fills benchmark topics on any Kafka server with confluent-kafka; this is never measured."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable

from confluent_kafka import Consumer as Watcher
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.servers import kept
from bench.topics import BASE_MS, CYCLE, PARTITIONS, Topic, records

__all__ = ["create", "delete", "ends", "fill", "fresh", "load"]

SETTINGS: dict[str, str | int | float | bool] = {
    "batch.size": 16384,
    "linger.ms": 200,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 500_000,
    "enable.idempotence": True,
}
_POLL_EVERY = 20_000
_PATIENCE_S = 20.0
_numbers = itertools.count()


def load(bootstrap: str, topic: Topic, *, server: str) -> float:
    """Create and fill ``topic`` unless it is complete; returns the seconds it took, 0.0 if it was complete.

    ``server`` names the server whose data is kept.
    """
    note = kept() / f"loaded-{server}-{topic.name}.json"
    there = ends(bootstrap, topic.name)
    if note.exists() and there == [topic.each] * PARTITIONS:
        return 0.0
    if there:
        delete(bootstrap, topic.name)
    create(bootstrap, topic.name)
    begun = time.perf_counter()
    _produce(bootstrap, topic.name, PARTITIONS, topic.count, topic.value_bytes, topic.codec)
    found = ends(bootstrap, topic.name)
    if found != [topic.each] * PARTITIONS:
        raise RuntimeError(f"{topic.name} was loaded, but its partitions end at {found}")
    note.write_text(json.dumps({"ends": found}), encoding="utf-8")
    return time.perf_counter() - begun


def fill(bootstrap: str, name: str, partitions: int, count: int, value_bytes: int = 100) -> None:
    """Write the first ``count`` records into a new topic: record i into partition i modulo ``partitions``."""
    _produce(bootstrap, name, partitions, count, value_bytes, "none")


def _produce(bootstrap: str, name: str, partitions: int, count: int, value_bytes: int, codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, **SETTINGS})
    pairs = records(value_bytes)
    for i in range(count):
        key, value = pairs[i % CYCLE]
        while True:
            try:
                producer.produce(name, value, key, i % partitions, timestamp=BASE_MS + i)
                break
            except BufferError:
                producer.poll(0.05)
        if i % _POLL_EVERY == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} records of {name} were not acknowledged")


def create(bootstrap: str, name: str, partitions: int = PARTITIONS) -> None:
    """Create a topic. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # held: futures of a collected client fail
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(30)
    _until(lambda: len(_partitions(bootstrap, name)) == partitions, f"topic {name} did not appear")


def fresh(bootstrap: str, prefix: str, partitions: int = 1) -> str:
    """Create a topic with a new name; returns the name."""
    topic = f"{prefix}-{time.monotonic_ns()}-{next(_numbers)}"
    create(bootstrap, topic, partitions)
    return topic


def delete(bootstrap: str, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([name]).values():
        future.result(30)
    _until(lambda: not _partitions(bootstrap, name), f"topic {name} did not go away")


def ends(bootstrap: str, name: str) -> list[int]:
    """End offsets by partition; [] if there is no such topic."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return _ends(bootstrap, name)
        except KafkaException as error:
            # A broker responds before it leads the partitions on its disk.
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _ends(bootstrap: str, name: str) -> list[int]:
    watcher = Watcher({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        found = _partitions(bootstrap, name)
        return [watcher.get_watermark_offsets(TopicPartition(name, p), timeout=20)[1] for p in found]
    finally:
        watcher.close()


def _partitions(bootstrap: str, name: str) -> list[int]:
    # List all topics, since a request for one by name may create it.
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics.get(name)
    if topic is None or (topic.error is not None and topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
        return []
    return sorted(topic.partitions)


def _until(true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.05)
