"""What the tests of group members share: a consumer that notes what it got and confirmed, and messages to get."""

from __future__ import annotations

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from penstock.client import Consumer, RebalanceListener
from penstock.config import OptionValue
from penstock.errors import PenstockError
from penstock.model import Partition, Record
from penstock.records import Messages
from tools.peers import tubemq_clients
from tools.peers.tubemq_clients import Mail

WITHIN_S = 40.0
PATIENCE_MS = {"heartbeat_interval_ms": 500, "heartbeat_after_fail_ms": 500, "register_backoff_ms": 200}


@dataclass
class Told(RebalanceListener):
    """What a listener heard, in order."""

    heard: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def assigned(self, partitions: Collection[Partition]) -> None:
        self._note("assigned", partitions)

    def revoked(self, partitions: Collection[Partition]) -> None:
        self._note("revoked", partitions)

    def lost(self, partitions: Collection[Partition]) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: Collection[Partition]) -> None:
        if partitions:
            self.heard.append((what, frozenset(map(key_of, partitions))))


class Member:
    """Our consumer in a group: ``got`` counts bodies whose confirmation was answered, ``refused`` the others."""

    def __init__(self, masters: str, group: str, topics: Collection[str], **options: OptionValue) -> None:
        self.told = Told()
        self.got: Counter[bytes] = Counter()
        self.refused = 0
        self.consumer = Consumer(f"tubemq://{masters}", group=group, **{**PATIENCE_MS, **options})
        self.consumer.subscribe(topics, self.told)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.consumer.close()

    @property
    def holds(self) -> set[str]:
        return set(map(key_of, self.consumer.assignment()))

    def step(self, timeout_s: float = 0.1) -> None:
        """Poll once, and confirm what came."""
        batch = self.consumer.poll(timeout_s)
        if batch:
            try:
                self.consumer.commit(batch)
            except PenstockError:
                self.refused += len(batch)
            else:
                self.got.update(record.value or b"" for record in batch)


def key_of(partition: Partition) -> str:
    """As TubeMQ writes it."""
    return f"{partition.node}:{partition.topic}:{partition.id}"


def until(members: Iterable[Member], done: Callable[[], object], timeout_s: float = WITHIN_S) -> None:
    """Let all of them poll until ``done()``. Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    for member in itertools.cycle(members):
        if done():
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout_s:.0f} s")
        member.step()


def fresh(what: str) -> str:
    """A name that no other test uses."""
    return f"{what}{uuid.uuid4().hex[:8]}"


def send(
    masters: str, topic: str, count: int, first: int = 0, filters: tuple[str | None, ...] = (None,)
) -> list[bytes]:
    """Have Java's producer send so many; their bodies."""
    mails = [Mail(topic, b"%d" % i, filters[i % len(filters)]) for i in range(first, first + count)]
    with tubemq_clients.producer(masters) as producer:
        answers = producer.send(mails)
    assert {answer["code"] for answer in answers} == {200}
    return [mail.body for mail in mails]


def read(consumer: Consumer, count: int) -> list[Record]:
    """The next records until there are ``count``, confirmed batch by batch: how many make a batch is the broker's."""
    found: list[Record] = []
    while len(found) < count:
        batch = consumer.poll(20)
        assert batch, f"{len(found)} of {count} came"
        consumer.commit(batch)
        found += batch
    return found


def come_again(consumer: Consumer, out: Messages) -> None:
    """Poll, confirming nothing, until each partition of ``out`` handed out again what it handed out before.

    From its beginning, but maybe less of it: what was read from memory may stand in the file by now, and near the end
    of that the broker reads half of what is left at a time.
    """
    missing = set(out.partitions)
    while missing:
        batch = consumer.poll(20)
        assert batch, f"nothing of {missing} came again"
        for partition in missing.intersection(batch.partitions):
            before, after = _told(out, partition), _told(batch, partition)
            assert after == before[: len(after)]
        missing.difference_update(batch.partitions)


def _told(batch: Messages, partition: Partition) -> list[tuple[object, object]]:
    """Offset and value of each record of a partition."""
    return [
        pair
        for part in batch.parts
        if part.partition == partition
        for pair in zip(part.batch.column("offset").to_pylist(), part.batch.column("value").to_pylist(), strict=True)
    ]


def once(bodies: Iterable[bytes]) -> Counter[bytes]:
    """Each of them, one time."""
    return Counter(bodies)
