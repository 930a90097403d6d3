"""Members of one group, ours and others' clients: each says what it holds and what it reads, and commits that.

What must not live here: which of them meet, and where.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import aiokafka.errors
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import KafkaException

import penstock
from penstock.errors import PenstockError
from tools.peers import kafka_java
from tools.peers.java_driver import Driver

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # theirs: it reads its schemas by a deprecated call
    from kafka import KafkaConsumer, errors
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
    from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PythonSticky

TOPIC_PARTITIONS = 6
SESSION_MS, BEAT_MS = 10_000, 300


class Member(ABC):
    """One member, in a thread or a process of its own."""

    knows: Mapping[str, Any]
    """What it takes for each assignor that it has."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        self.bootstrap, self.group, self.topic, self.assignor = bootstrap, group, topic, assignor
        self.values: list[int] = []
        self.failure: BaseException | None = None

    @property
    @abstractmethod
    def holding(self) -> frozenset[int]:
        """Numbers of the partitions it reads now."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """It leaves in order."""


class _Threaded(Member):
    def start(self) -> None:
        self._held: frozenset[int] = frozenset()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._held = frozenset()

    @property
    def holding(self) -> frozenset[int]:
        return self._held

    def _run(self) -> None:
        try:
            self.read(self._over.is_set)
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def read(self, over: Callable[[], bool]) -> None:
        """Until it is over."""


class Ours(_Threaded):
    knows = {name: name for name in ("range", "roundrobin", "sticky", "cooperative-sticky")}

    def options(self) -> dict[str, Any]:
        return {
            "assignors": self.knows[self.assignor],
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": BEAT_MS,
        }

    def read(self, over: Callable[[], bool]) -> None:
        with penstock.Consumer(
            f"kafka://{self.bootstrap}/{self.topic}",
            group=self.group,
            **self.options(),
        ) as consumer:
            while not over():
                batch = consumer.poll(0.1)
                self.values.extend(int(record.value or b"-1") for record in batch)
                self._held = frozenset(each.id for each in consumer.assignment())
                try:
                    if batch:
                        consumer.commit(batch)
                except PenstockError as error:
                    if "REBALANCE" not in str(error) and "GENERATION" not in str(error):
                        raise


class Java(Member):
    knows = {
        name: f"org.apache.kafka.clients.consumer.{kind}Assignor"
        for name, kind in {
            "range": "Range",
            "roundrobin": "RoundRobin",
            "sticky": "Sticky",
            "cooperative-sticky": "CooperativeSticky",
        }.items()
    }

    options: Mapping[str, str] = {}

    def start(self) -> None:
        names = {"group": self.group, "topic": self.topic, "assignors": self.knows[self.assignor]}
        options = {**names, **self.options}
        self._running = kafka_java.driver("Member", {"bootstrap": self.bootstrap, **options})
        self._driver: Driver = self._running.__enter__()

    def stop(self) -> None:
        self._running.__exit__(None, None, None)
        self._seen()

    @property
    def holding(self) -> frozenset[int]:
        self._seen()
        held: set[int] = set()
        for line in self._driver.events("assigned", "revoked", "lost", "closed"):
            partitions = line.get("partitions", held.copy())
            held = held | {*partitions} if line["event"] == "assigned" else held - {*partitions}
        return frozenset(held)

    def _seen(self) -> None:
        self.values = [int(line["value"]) for line in self._driver.messages]


class Confluent(_Threaded):
    knows = {name: name for name in ("range", "roundrobin", "cooperative-sticky")}

    def config(self) -> dict[str, Any]:
        return {
            "partition.assignment.strategy": self.knows[self.assignor],
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": BEAT_MS,
        }

    def read(self, over: Callable[[], bool]) -> None:
        consumer = Librdkafka(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **self.config(),
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not over():
                messages = [each for each in consumer.consume(500, 0.1) if each.error() is None]
                self.values.extend(int(each.value() or b"-1") for each in messages)
                self._held = frozenset(each.partition for each in consumer.assignment())
                try:
                    if messages:
                        consumer.commit(asynchronous=False)
                except KafkaException:
                    pass  # whoever gets the partition reads it again
        finally:
            consumer.close()


class NewerOurs(Ours):
    """By ``group.protocol=consumer``: the assignor is the coordinator's, and so is how often it is told."""

    knows = {name: name for name in ("uniform", "range")}

    def options(self) -> dict[str, Any]:
        return {"group_protocol": "consumer", "group_remote_assignor": self.assignor}


class NewerJava(Java):
    """The same of Java."""

    knows = {name: name for name in ("uniform", "range")}
    options = {"protocol": "consumer"}


class NewerConfluent(Confluent):
    """The same of librdkafka."""

    knows = {name: name for name in ("uniform", "range")}

    def config(self) -> dict[str, Any]:
        return {"group.protocol": "consumer", "group.remote.assignor": self.assignor}


class KafkaPython(_Threaded):
    knows = {
        "range": PythonRange,
        "roundrobin": PythonRoundRobin,
        "sticky": PythonSticky,
        "cooperative-sticky": PythonCooperative,
    }

    def read(self, over: Callable[[], bool]) -> None:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(self.knows[self.assignor],),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS,
        )
        try:
            while not over():
                found = [each for batch in consumer.poll(100).values() for each in batch]
                self.values.extend(int(each.value) for each in found)
                self._held = frozenset(each.partition for each in consumer.assignment())
                try:
                    if found:
                        consumer.commit(timeout_ms=5_000)
                except errors.KafkaError:
                    pass
        finally:
            consumer.close()


class AioKafka(_Threaded):
    knows = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}

    def read(self, over: Callable[[], bool]) -> None:
        asyncio.run(self._read(over))

    async def _read(self, over: Callable[[], bool]) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(self.knows[self.assignor],),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS,
        )
        await consumer.start()
        try:
            while not over():
                found = [each for batch in (await consumer.getmany(timeout_ms=100)).values() for each in batch]
                self.values.extend(int(each.value) for each in found)
                self._held = frozenset(each.partition for each in consumer.assignment())
                try:
                    if found:
                        await consumer.commit()
                except aiokafka.errors.KafkaError:
                    pass
        finally:
            await consumer.stop()


CLIENTS: Mapping[str, type[Member]] = {
    "ours": Ours,
    "java": Java,
    "librdkafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}
NEWER: Mapping[str, type[Member]] = {"java": NewerJava, "librdkafka": NewerConfluent, "ours": NewerOurs}
"""Members by ``group.protocol=consumer`` (KIP-848)."""
