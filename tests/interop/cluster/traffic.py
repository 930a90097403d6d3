"""Who writes to a cluster and reads it while things happen to its brokers, and what must be true afterwards."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.client import Producer, RangeReader
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from tools.peers.kafka_cluster import Cluster

WITHIN_S = 60.0


class Writing:
    """Values 0, 1, 2, … sent by a producer of ours; ``acknowledged`` is where each of them was stored."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[BaseException] = []
        self._more = threading.Condition()

    def await_more(self, count: int) -> None:
        """Until so many more are acknowledged than now."""
        with self._more:
            wanted = len(self.acknowledged) + count
            come = self._more.wait_for(lambda: len(self.acknowledged) >= wanted or self.failures, WITHIN_S)
        assert not self.failures, self.failures[:3]
        assert come, f"{wanted - len(self.acknowledged)} of {count} records were not acknowledged in {WITHIN_S:.0f} s"

    def run(self, producer: Producer, topic: str, over: threading.Event, pause_s: float) -> None:
        """Send until ``over``, then wait for what is on its way."""
        number = 0
        while not over.wait(pause_s):
            delivery = producer.send(topic, b"%d" % number, key=b"%d" % number)
            delivery.add_done_callback(lambda done, number=number: self._ended(number, done))
            number += 1
        producer.flush()

    def _ended(self, number: int, done: object) -> None:
        with self._more:
            try:
                stored = done.result(0)  # type: ignore[attr-defined]
                self.acknowledged[number] = (stored.partition, stored.offset)
            except Exception as error:
                self.failures.append(error)
            self._more.notify_all()


@contextmanager
def writing(cluster: Cluster, topic: str, *, pause_s: float = 0.002, **options: str | int) -> Iterator[Writing]:
    """Records are written until the block ends, and all of them have their fate then."""
    found = Writing()
    over = threading.Event()
    with Producer(cluster.address, **options) as producer:
        thread = threading.Thread(target=found.run, args=(producer, topic, over, pause_s))
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()
    assert not found.failures, found.failures[:3]


def stored(cluster: Cluster, topic: str, partitions: int, **options: str | int) -> dict[int, tuple[int, int]]:
    """Every record of the topic by its value, read as exact ranges; asserts that none is there twice."""
    values: list[tuple[int, int, int]] = []
    with RangeReader(cluster.address, **options) as reader:
        every = [Partition(topic, number) for number in range(partitions)]
        ends = reader.offsets(dict.fromkeys(every, OffsetSpec(name=Offset.LATEST)))
        for partition in every:
            for batch in reader.read(LogRange(topic, partition.id, 0, ends[partition].offset)):
                values += [(int(each.value or b"-1"), partition.id, each.offset) for each in batch]
    twice = [value for value, times in Counter(value for value, _, _ in values).items() if times > 1]
    assert not twice, f"{len(twice)} records are stored twice: {twice[:5]} …"
    return {value: (partition, offset) for value, partition, offset in values}


def check_all_there(written: Mapping[int, tuple[int, int]], there: Mapping[int, tuple[int, int]]) -> None:
    """What was acknowledged is there, at the offset that the producer was told."""
    lost = [value for value in written if value not in there]
    assert not lost, f"{len(lost)} of {len(written)} acknowledged records are not there: {lost[:5]} …"
    moved = [value for value, at in written.items() if there[value] != at]
    assert not moved, f"{len(moved)} records are elsewhere than acknowledged: {moved[:5]} …"
