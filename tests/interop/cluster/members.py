"""Members of one group, ours and others', each in a thread of its own; all of them understand ``range``.

Each commits what it has read, so what one gave up the next begins where it was committed. What must not live here: what
happens to brokers.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import KafkaException

from penstock.client import Consumer, RebalanceListener
from penstock.errors import PenstockError
from penstock.model import Partition
from tools.peers.kafka_cluster import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # theirs: it reads its schemas by a deprecated call
    from kafka import KafkaConsumer, errors
    from kafka.coordinator.assignors.range import RangePartitionAssignor

_SESSION_MS = 10_000
_BEAT_MS = 1_000


class Seen:
    """What the members of a group got together: ``values`` and how often each."""

    def __init__(self) -> None:
        self.values: Counter[int] = Counter()
        self.by_member: Counter[str] = Counter()
        self.failures: list[BaseException] = []
        self.again: list[tuple[Partition, int]] = []
        """Records that a member got twice in a row of one assignment, which nothing excuses."""
        self._more = threading.Condition()

    def got(self, member: str, values: Sequence[bytes | None]) -> None:
        with self._more:
            self.values.update(int(value or b"-1") for value in values)
            self.by_member[member] += len(values)
            self._more.notify_all()

    def await_all(self, wanted: Sequence[int], within_s: float) -> None:
        """Until each of these was seen. Fails with what is missing, or with what a member raised."""
        with self._more:
            self._more.wait_for(lambda: self.failures or all(each in self.values for each in wanted), within_s)
        assert not self.failures, self.failures[:3]
        missing = [each for each in wanted if each not in self.values]
        assert not missing, f"{len(missing)} of {len(wanted)} were not read in {within_s:.0f} s: {missing[:5]} …"

    def failed(self, error: BaseException) -> None:
        with self._more:
            self.failures.append(error)
            self._more.notify_all()


class Places(RebalanceListener):
    """Where a member stands in each partition that it holds; a new assignment begins anew."""

    def __init__(self) -> None:
        self._next: dict[Partition, int] = {}
        self.again: list[tuple[Partition, int]] = []

    def revoked(self, partitions: object) -> None:
        del partitions
        self._next.clear()

    def passed(self, partition: Partition, offset: int) -> None:
        if offset < self._next.get(partition, 0):
            self.again.append((partition, offset))
        self._next[partition] = offset + 1


def ours(cluster: Cluster, topic: str, group: str, seen: Seen, over: threading.Event) -> None:
    places = Places()
    options = {"session_timeout_ms": _SESSION_MS, "heartbeat_interval_ms": _BEAT_MS, "metadata_max_age_ms": 5_000}
    with Consumer(
        cluster.address, group=group, auto_offset_reset="earliest", enable_auto_commit=False, **options
    ) as consumer:
        consumer.subscribe([topic], places)
        while not over.is_set():
            batch = consumer.poll(0.5)
            for each in batch:
                places.passed(Partition(each.topic, each.partition), each.offset)
            seen.got("ours", [each.value for each in batch])
            try:
                if batch:
                    consumer.commit(batch)
            except PenstockError as error:
                if not (error.retriable or "REBALANCE" in str(error) or "GENERATION" in str(error)):
                    raise
    seen.again += places.again


def librdkafka(cluster: Cluster, topic: str, group: str, seen: Seen, over: threading.Event) -> None:
    consumer = Librdkafka(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": _SESSION_MS,
            "heartbeat.interval.ms": _BEAT_MS,
            "topic.metadata.refresh.interval.ms": 5_000,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        while not over.is_set():
            messages = [each for each in consumer.consume(500, 0.5) if each.error() is None]
            seen.got("librdkafka", [each.value() for each in messages])
            try:
                if messages:
                    consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # whoever gets the partition reads it again
    finally:
        consumer.close()


def kafka_python(cluster: Cluster, topic: str, group: str, seen: Seen, over: threading.Event) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=_BEAT_MS,
        metadata_max_age_ms=5_000,
    )
    try:
        while not over.is_set():
            found = [each for batch in consumer.poll(500).values() for each in batch]
            seen.got("kafka-python", [each.value for each in found])
            try:
                if found:
                    consumer.commit(timeout_ms=5_000)
            except errors.KafkaError:
                pass
    finally:
        consumer.close()


Member = Callable[[Cluster, str, str, Seen, threading.Event], None]


@contextmanager
def reading(cluster: Cluster, topic: str, *members: Member, parted_at: int = -1) -> Iterator[Seen]:
    """Members of group ``topic`` read until the block ends. Raises what one of them raised.

    ``parted_at`` is where the log was cut off, to which they go back.
    """
    seen, over = Seen(), threading.Event()

    def run(member: Member) -> None:
        try:
            member(cluster, topic, topic, seen, over)
        except BaseException as error:
            seen.failed(error)

    with ExitStack() as ends:
        threads = [threading.Thread(target=run, args=[member], name=member.__name__) for member in members]
        for thread in threads:
            thread.start()
            ends.callback(thread.join)
        ends.callback(over.set)
        yield seen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # kafka-python leaves sockets open that could not connect
        gc.collect()
    assert not seen.failures, seen.failures[:3]
    again = [(str(partition), offset) for partition, offset in seen.again if offset != parted_at]
    assert not again, f"{len(again)} records came twice within an assignment: {again[:5]}"
