"""A running group changes to assignors that keep partitions, and back, member by member, while records flow.

Java's rule: first every member lists both, then every member only the new one. Nothing is lost, and what is read twice
is what a member could not commit any more. Members of librdkafka cannot take part: it refuses such a list.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import KafkaException

import penstock
from penstock.errors import PenstockError, ServerError
from penstock.model import Partition
from tests.interop.groups.members import BEAT_MS, SESSION_MS, Java, Ours
from tests.interop.groups.rolling import Writer
from tests.interop.groups.test_mixed_groups import until

pytestmark = pytest.mark.interop

PARTITIONS = 5
EVERYTHING = frozenset(range(PARTITIONS))
OLD, BOTH, NEW = ["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"]


class Owners:
    """Who of ours has which partition, as their listeners hear it: each has one owner at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: dict[int, object] = {}
        self.faults: list[str] = []
        self.moved = 0

    def take(self, who: object, numbers: Collection[int]) -> None:
        with self._lock:
            self.faults += [f"{each} was {self._owner[each]}'s" for each in numbers if each in self._owner]
            self._owner.update(dict.fromkeys(numbers, who))

    def give_up(self, who: object, numbers: Collection[int]) -> None:
        with self._lock:
            self.faults += [f"{each} was not {who}'s" for each in numbers if self._owner.get(each) is not who]
            self.moved += len(numbers)
            for each in numbers:
                self._owner.pop(each, None)


class OurMember(Ours, penstock.RebalanceListener):
    """Commits whatever a poll brought before the next one; ``uncommitted`` is what came too late for that."""

    def __init__(self, bootstrap: str, group: str, assignors: Sequence[str], owners: Owners) -> None:
        super().__init__(bootstrap, group, group, "")
        self.assignors, self.owners = assignors, owners
        self.uncommitted: list[int] = []

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.owners.take(self, [each.id for each in partitions])

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.owners.give_up(self, [each.id for each in partitions])

    def read(self, over: Callable[[], bool]) -> None:
        with penstock.Consumer(
            f"kafka://{self.bootstrap}",
            group=self.group,
            assignors=self.assignors,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS,
        ) as consumer:
            consumer.subscribe([self.topic], listener=self)
            while not over():
                batch = consumer.poll(0.1)
                values = [int(record.value or b"-1") for record in batch]
                self.values += values
                self._held = frozenset(each.id for each in consumer.assignment())
                try:
                    if batch:
                        consumer.commit(batch)
                except PenstockError as error:
                    if "REBALANCE" not in str(error) and "GENERATION" not in str(error):
                        raise
                    self.uncommitted += values


class JavaMember(Java):
    def __init__(self, bootstrap: str, group: str, assignors: Sequence[str], owners: Owners) -> None:
        super().__init__(bootstrap, group, group, ",".join(assignors))
        del owners  # another process: when it heard of something is not known here
        self.knows = {self.assignor: ",".join(Java.knows[name] for name in assignors)}

    @property
    def uncommitted(self) -> list[int]:
        """All that it has read, if anything came too late: it does not say what."""
        return self.values if self._driver.events("uncommitted") else []


Either = OurMember | JavaMember


class Group:
    """Three members of one group of ``kinds``, records that flow, and everybody who was ever in it."""

    def __init__(self, bootstrap: str, kinds: Sequence[type[Either]], ends: ExitStack) -> None:
        self.bootstrap, self.kinds = bootstrap, kinds
        self.name = f"changing-{uuid.uuid4().hex[:8]}"
        self.owners = Owners()
        self.members: list[Either] = []
        self.ever: list[Either] = []
        self._ends = ends
        with penstock.Admin(f"kafka://{bootstrap}") as admin:
            admin.create_topics([penstock.NewTopic(self.name, PARTITIONS)])
        self.writer = Writer(f"kafka://{bootstrap}", self.name, PARTITIONS, every_s=0.01)
        ends.callback(self.writer.stop)

    def add(self, kind: type[Either], assignors: Sequence[str]) -> Either:
        member = kind(self.bootstrap, self.name, assignors, self.owners)
        member.start()
        self._ends.callback(lambda: member in self.members and member.stop())
        self.members.append(member)
        self.ever.append(member)
        return member

    def begin(self, assignors: Sequence[str]) -> None:
        for kind in self.kinds:
            self.add(kind, assignors)
        self.settle()

    def roll(self, assignors: Sequence[str]) -> None:
        """Restart one after the other."""
        for kind in self.kinds:
            leaving = self.members.pop(0)
            leaving.stop()
            self.settle()
            self.add(kind, assignors)
            self.settle()

    def settle(self) -> None:
        """Until all partitions are shared out among all, and something was read since."""
        until(self._shared, self.members, "sharing")
        begun = self.writer.written
        until(lambda: self.seen() >= {*range(begun)}, self.members, "reading what was written meanwhile")
        until(self._shared, self.members, "sharing")

    def _shared(self) -> bool:
        held = [each.holding for each in self.members]
        return all(held) and frozenset().union(*held) == EVERYTHING and sum(map(len, held)) == PARTITIONS

    def seen(self) -> set[int]:
        return {value for member in self.ever for value in member.values}

    @property
    def assignor(self) -> str:
        with penstock.Admin(f"kafka://{self.bootstrap}") as admin:
            return admin.describe_group(self.name).assignor

    def end(self) -> None:
        """Nothing was lost, and only what was not committed was read again."""
        self.writer.stop()
        until(lambda: self.seen() >= {*range(self.writer.written)}, self.members, "reading to the end")
        for member in self.members:
            member.stop()
        self.members.clear()
        times = Counter(value for member in self.ever for value in member.values)
        again = {value for value, count in times.items() if count > 1}
        assert again <= {value for member in self.ever for value in member.uncommitted}
        assert not self.owners.faults


@pytest.fixture(params=["ours", "ours and java"])
def group(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Group]:
    kinds = [OurMember, OurMember, OurMember] if request.param == "ours" else [OurMember, JavaMember, OurMember]
    with ExitStack() as ends:
        yield Group(bootstrap, kinds, ends)


def a_further_member_moves(group: Group) -> tuple[int, int]:
    """How many partitions others of ours give up for a fourth member, and how many it gets."""
    before = group.owners.moved
    fourth = group.add(OurMember, group.members[0].assignors if isinstance(group.members[0], OurMember) else NEW)
    group.settle()
    return group.owners.moved - before, len(fourth.holding)


@pytest.mark.long
def test_a_group_goes_to_assignors_that_keep_partitions_and_back(group: Group) -> None:
    group.begin(OLD)
    assert group.assignor == "range"
    group.roll(BOTH)
    assert group.assignor == "cooperative-sticky"
    group.roll(NEW)
    assert group.assignor == "cooperative-sticky"
    given_up, got = a_further_member_moves(group)
    assert got == 1
    assert given_up <= 1  # Java's member may have been the one
    group.members.pop().stop()
    group.settle()
    group.roll(BOTH)
    assert group.assignor == "cooperative-sticky"
    group.roll(OLD)
    assert group.assignor == "range"
    given_up, _ = a_further_member_moves(group)
    ours = sum(isinstance(each, OurMember) for each in group.members) - 1
    assert given_up >= ours  # each of them gave up everything that it had
    group.end()


@pytest.mark.parametrize(("running", "wanted"), [(OLD, NEW), (NEW, OLD)])
def test_who_skips_the_first_step_is_told_what_to_do_and_the_group_reads_on(
    bootstrap: str, running: list[str], wanted: list[str]
) -> None:
    with ExitStack() as ends:
        group = Group(bootstrap, [OurMember, OurMember, OurMember], ends)
        group.begin(running)
        moved = group.owners.moved
        refused = OurMember(bootstrap, group.name, wanted, group.owners)
        refused.start()
        until(lambda: refused.failure is not None, group.members, "being refused")
        refused.stop()
        assert isinstance(refused.failure, ServerError)
        assert refused.failure.code == 23
        said = str(refused.failure)
        assert "INCONSISTENT_GROUP_PROTOCOL" in said
        assert "restart every member with both listed" in said
        group.settle()
        assert group.owners.moved == moved
        group.end()


def test_librdkafka_takes_no_list_of_both() -> None:
    both = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "partition.assignment.strategy": ",".join(BOTH)}
    with pytest.raises(KafkaException, match=r"online migration .* is not supported"):
        Librdkafka(both)
