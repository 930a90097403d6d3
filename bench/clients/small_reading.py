"""Readers of records that arrive one by one: the latency of each, from its send to its arrival.

A value begins with the time at which it was passed to its producer, in ns of the machine's monotonic clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.clients import small_java
from bench.clients.small_jvm import Told

__all__ = ["CASES", "Seen", "TrickleJob"]

READY_S = 30.0
SILENCE_S = 20.0
WARM_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class TrickleJob:
    """Read ``count`` records of partition 0 from its end on; ``@ready`` is printed when the reader is there.

    ``warm``: records before these, for clients that have to warm up.
    """

    bootstrap: str
    topic: str
    count: int
    warm: int = 0


@dataclass(slots=True)
class Seen:
    """Latencies in ns, in order, and the CPU time without the first fifth, or of the last ``counted`` records."""

    wanted: int
    counted: int = 0
    latencies: list[int] = field(default_factory=list)
    _cpu: float = 0.0
    _from: int = 0

    def add(self, value: bytes) -> bool:
        """Add a record; returns whether it was the last one."""
        self.latencies.append(time.monotonic_ns() - int(value[:20]))
        if not self._from and len(self.latencies) >= self._uncounted():
            self._from, self._cpu = len(self.latencies), time.process_time()
        return len(self.latencies) >= self.wanted

    def _uncounted(self) -> float:
        return self.wanted - self.counted if self.counted else self.wanted * WARM_SHARE

    def result(self) -> dict[str, object]:
        """ms at 50, 99 and 99.9 %, CPU µs per record, and the number of records."""
        cpu = time.process_time() - self._cpu
        counted = sorted(self.latencies[self._from :])

        def at(share: float) -> float:
            return counted[min(len(counted) - 1, int(len(counted) * share))] / 1e6

        figures = {"p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "cpu_us": cpu / len(counted) * 1e6}
        return {**figures, "counted": len(counted)}


def _ready() -> None:
    print("@ready", flush=True)


def consumer(job: TrickleJob) -> Seen:
    """``for message in batch`` of ``poll``."""
    from penstock import Consumer, Partition

    seen = Seen(job.count)
    with Consumer(f"kafka://{job.bootstrap}") as reader:
        reader.assign({Partition(job.topic, 0): 0})
        _ready()
        while batch := reader.poll(SILENCE_S):
            for message in batch:
                if seen.add(message.value or b""):
                    return seen
    raise TimeoutError(f"{len(seen.latencies)} came")


def async_consumer(job: TrickleJob) -> Seen:
    """The same on an event loop."""

    async def run() -> Seen:
        from penstock import AsyncConsumer, Partition

        seen = Seen(job.count)
        async with AsyncConsumer(f"kafka://{job.bootstrap}") as reader:
            await reader.assign({Partition(job.topic, 0): 0})
            _ready()
            while batch := await reader.poll(SILENCE_S):
                for message in batch:
                    if seen.add(message.value or b""):
                        return seen
        raise TimeoutError(f"{len(seen.latencies)} came")

    return asyncio.run(run())


def confluent(job: TrickleJob) -> Seen:
    """``poll()``."""
    from confluent_kafka import Consumer, TopicPartition

    seen = Seen(job.count)
    reader = Consumer({
        "bootstrap.servers": job.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 500,
    })  # fmt: skip
    reader.assign([TopicPartition(job.topic, 0, 0)])
    _ready()
    while (message := reader.poll(SILENCE_S)) is not None:
        if message.error():
            raise RuntimeError(message.error())
        if seen.add(message.value()):
            return seen
    raise TimeoutError(f"{len(seen.latencies)} came")


def aiokafka(job: TrickleJob) -> Seen:
    """``getone()``."""

    async def run() -> Seen:
        from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]

        seen = Seen(job.count)
        reader = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, enable_auto_commit=False)
        await reader.start()
        try:
            place = TopicPartition(job.topic, 0)
            reader.assign([place])
            reader.seek(place, 0)
            _ready()
            while not seen.add((await asyncio.wait_for(reader.getone(), SILENCE_S)).value):
                pass
            return seen
        finally:
            await reader.stop()

    return asyncio.run(run())


def kafka_python(job: TrickleJob) -> Seen:
    """``poll()``."""
    from kafka import KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    seen = Seen(job.count)
    reader = KafkaConsumer(bootstrap_servers=job.bootstrap, group_id=None, enable_auto_commit=False)
    place = TopicPartition(job.topic, 0)
    reader.assign([place])
    reader.seek(place, 0)
    _ready()
    while found := reader.poll(timeout_ms=int(SILENCE_S * 1000)):
        for message in found.get(place, ()):
            if seen.add(message.value):
                return seen
    raise TimeoutError(f"{len(seen.latencies)} came")


def java(job: TrickleJob) -> Told:
    """``poll()``."""
    return small_java.read(job.bootstrap, job.topic, count=job.count, warm=job.warm, ready=_ready)


CASES: Mapping[str, str] = {
    "penstock Consumer": "consumer",
    "penstock AsyncConsumer": "async_consumer",
    "confluent-kafka": "confluent",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka_python",
    "Java": "java",
}
