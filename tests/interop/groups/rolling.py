"""Members of ours that come and go while a writer writes to every partition, and what became of the records meanwhile.

What must not live here: who comes and goes when, and what is expected of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import penstock
from penstock.config import OptionValue
from penstock.model import Partition

PARTITIONS = 12
WITHIN_S = 120.0


class Flow:
    """What the members of one group read, and when.

    ``gaps`` are the longest between two records of one partition that one member read, while it had that partition;
    ``stalls`` the longest between two records of one partition, whoever read them.
    """

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.read_twice = 0
        self.gaps: dict[int, float] = {}
        self.stalls: dict[int, float] = {}
        self.failures: list[BaseException] = []
        self._last: dict[tuple[str, int], float] = {}
        self._news = threading.Condition()

    def read(self, member: str, batch: penstock.Messages) -> None:
        values = [int(record.value or b"-1") for record in batch]
        now = time.monotonic()
        with self._news:
            self.read_twice += len(values) - len(set(values) - self.seen)
            self.seen.update(values)
            for partition in {record.partition for record in batch}:
                self._note(self.gaps, member, partition, now)
                self._note(self.stalls, "", partition, now)
            self._news.notify_all()

    def gone(self, member: str, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._last.pop((member, partition.id), None)

    def forget(self) -> None:
        """What was measured so far."""
        with self._news:
            self.gaps.clear()
            self.stalls.clear()

    def wait(self, values: Collection[int]) -> None:
        with self._news:
            done = self._news.wait_for(lambda: self.failures or self.seen.issuperset(values), WITHIN_S)
        assert done, f"{len(set(values) - self.seen)} records were not read"
        assert not self.failures, self.failures

    def _note(self, longest: dict[int, float], member: str, partition: int, now: float) -> None:
        before = self._last.get((member, partition), now)
        longest[partition] = max(longest.get(partition, 0.0), now - before)
        self._last[member, partition] = now


def shown(longest: Mapping[int, float]) -> str:
    """Of each partition, in seconds."""
    return ", ".join(f"{partition}: {seconds:.2f}" for partition, seconds in sorted(longest.items()))


class Member(penstock.RebalanceListener):
    """In a thread of its own; ``told`` is what it heard of its partitions, in order."""

    def __init__(self, address: str, group: str, name: str, flow: Flow, **options: OptionValue) -> None:
        self.name, self.flow = name, flow
        self._address, self._group, self._options = address, group, options
        self.holding: frozenset[Partition] = frozenset()
        self.generation = -1
        self.told: list[str] = []
        self.dawdles = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.told.append("assigned")

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.told.append("revoked")
        self.flow.gone(self.name, partitions)

    def lost(self, partitions: Collection[Partition]) -> None:
        self.told.append("lost")
        self.flow.gone(self.name, partitions)

    def again(self) -> Member:
        """The same once more, after it has stopped."""
        return Member(self._address, self._group, f"{self.name} again", self.flow, **self._options)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with penstock.Consumer(self._address, group=self._group, **self._options) as consumer:
                consumer.subscribe([self._group], self)
                while not self._over.is_set():
                    batch = consumer.poll(0.1)
                    self.flow.read(self.name, batch)
                    self.holding, self.generation = consumer.assignment(), consumer.group_metadata().generation
                    if batch:
                        consumer.commit(batch)
                    while self.dawdles.is_set() and not self._over.wait(0.02):
                        pass
        except BaseException as error:
            self.flow.failures.append(error)


def await_shared(members: Sequence[Member]) -> None:
    deadline, pause = time.monotonic() + WITHIN_S, threading.Event()
    while sum(len(each.holding) for each in members) != PARTITIONS or not all(each.holding for each in members):
        held = {each.name: len(each.holding) for each in members}
        assert not members[0].flow.failures, members[0].flow.failures
        assert time.monotonic() < deadline, f"not shared out within {WITHIN_S:.0f} s: {held}"
        pause.wait(0.02)


def stop_all(members: Sequence[Member]) -> None:
    for each in members:
        each.stop()


class Writer:
    """Writes a record to every partition, again and again until stopped; ``written`` are the values 0 to that."""

    def __init__(self, address: str, topic: str, partitions: int = PARTITIONS, *, every_s: float = 0.02) -> None:
        self.written = 0
        self._over = threading.Event()
        self._address, self._topic = address, topic
        self._partitions, self._every_s = partitions, every_s
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with penstock.Producer(self._address, linger_ms=1) as producer:
            while not self._over.wait(self._every_s):
                for partition in range(self._partitions):
                    producer.send(self._topic, b"%d" % (self.written + partition), partition=partition)
                self.written += self._partitions


@contextmanager
def running(
    address: str, topic: str, options: Sequence[Mapping[str, OptionValue]]
) -> Iterator[tuple[Flow, list[Member], Writer]]:
    """A member for each of ``options``, which share the topic in a group of its name."""
    flow = Flow()
    with ExitStack() as ends:
        writer = Writer(address, topic)
        ends.callback(writer.stop)
        members = [Member(address, topic, f"member {n}", flow, **told) for n, told in enumerate(options)]
        ends.callback(stop_all, members)
        await_shared(members)
        yield flow, members, writer
