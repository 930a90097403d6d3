"""Members of our own on a real broker that come, go and dawdle: what stays with the others is read all the while."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

import penstock
from penstock.model import Partition
from tests.interop.peers.fixtures import KafkaBroker

pytestmark = [pytest.mark.interop, pytest.mark.long]

PARTITIONS, MEMBERS = 12, 6
WITHIN_S = 120.0


class Flow:
    """What the members of one group read, and when; ``gaps`` are the longest between two records of one partition that
    one member read, while it had that partition."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.gaps: dict[int, float] = {}
        self.failures: list[BaseException] = []
        self._last: dict[tuple[str, int], float] = {}
        self._news = threading.Condition()

    def read(self, member: str, batch: penstock.Messages) -> None:
        now = time.monotonic()
        with self._news:
            self.seen.update(int(record.value or b"-1") for record in batch)
            for partition in {record.partition for record in batch}:
                before = self._last.get((member, partition), now)
                self.gaps[partition] = max(self.gaps.get(partition, 0.0), now - before)
                self._last[member, partition] = now
            self._news.notify_all()

    def gone(self, member: str, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._last.pop((member, partition.id), None)

    def wait(self, values: Collection[int]) -> None:
        with self._news:
            done = self._news.wait_for(lambda: self.failures or self.seen.issuperset(values), WITHIN_S)
        assert done, f"{len(set(values) - self.seen)} records were not read"
        assert not self.failures, self.failures


class Member(penstock.RebalanceListener):
    def __init__(self, address: str, group: str, name: str, flow: Flow) -> None:
        self.name, self.flow = name, flow
        self._address, self._group = address, group
        self.holding: frozenset[Partition] = frozenset()
        self.told: list[str] = []
        self.dawdles = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.told.append("revoked")
        self.flow.gone(self.name, partitions)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        options = {"assignors": "cooperative-sticky", "heartbeat_interval_ms": 300}
        try:
            with penstock.Consumer(self._address, group=self._group, **options) as consumer:
                consumer.subscribe([self._group], self)
                while not self._over.is_set():
                    batch = consumer.poll(0.1)
                    self.flow.read(self.name, batch)
                    self.holding = consumer.assignment()
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


class Writer:
    """Writes a record to every partition, again and again."""

    def __init__(self, address: str, topic: str) -> None:
        self.written = 0
        self._over = threading.Event()
        self._address, self._topic = address, topic
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with penstock.Producer(self._address, linger_ms=1) as producer:
            while not self._over.wait(0.02):
                for partition in range(PARTITIONS):
                    producer.send(self._topic, b"%d" % (self.written + partition), partition=partition)
                self.written += PARTITIONS


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> tuple[str, str]:
    address, name = f"kafka://{kafka_broker().bootstrap}", f"rolling-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(address) as admin:
        admin.create_topics([penstock.NewTopic(name, PARTITIONS)])
    return address, name


@contextmanager
def running(address: str, topic: str, count: int) -> Iterator[tuple[Flow, list[Member], Writer]]:
    flow = Flow()
    with ExitStack() as ends:
        writer = Writer(address, topic)
        ends.callback(writer.stop)
        members = [Member(address, topic, f"member {n}", flow) for n in range(count)]
        ends.callback(lambda: [each.stop() for each in members])
        await_shared(members)
        yield flow, members, writer


def test_restarting_members_one_by_one_neither_loses_records_nor_holds_up_those_of_others(
    topic: tuple[str, str],
) -> None:
    with running(*topic, MEMBERS) as (flow, members, writer):
        flow.gaps.clear()
        for place, leaving in enumerate(list(members)):
            leaving.stop()
            members[place] = Member(*topic, f"{leaving.name} again", flow)
            await_shared(members)
        gaps = dict(flow.gaps)
        writer.stop()
        flow.wait(range(writer.written))
    print("longest gaps within an ownership:", {each: f"{gap:.2f} s" for each, gap in sorted(gaps.items())})
    assert max(gaps.values()) < 10


def test_what_stays_is_read_while_the_group_waits_for_a_member_that_dawdles(topic: tuple[str, str]) -> None:
    with running(*topic, 2) as (flow, members, writer):
        reading, dawdling = members
        dawdling.dawdles.set()
        third = Member(*topic, "the third", flow)
        members.append(third)
        theirs = {each.id for each in reading.holding}
        begun = writer.written
        # Whatever is written from now on comes while the join cannot end.
        wanted = [
            begun + more + each for more in range(10 * PARTITIONS, 110 * PARTITIONS, PARTITIONS) for each in theirs
        ]
        flow.wait(wanted)
        assert not third.holding
        assert "revoked" not in reading.told
        dawdling.dawdles.clear()
        await_shared(members)
        writer.stop()
        flow.wait(range(writer.written))
