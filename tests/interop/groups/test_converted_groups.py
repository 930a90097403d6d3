"""Groups converted while their members are at work: from the classic protocol to the newer one (KIP-848), and back.

Java's consumers and ours, of both protocols, are in the group together while records keep coming, at a real broker and
at our node. At each step all partitions have one owner; nothing is lost, and what is committed only goes on.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

import penstock
from penstock.testing import Broker
from tests.interop.groups.members import CLIENTS, NEWER, TOPIC_PARTITIONS, Member
from tests.interop.groups.test_mixed_groups import shared_by_all, until
from tests.interop.groups.test_newer_groups import BEAT_MS, QUICK, Killed
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

PAUSE_S: Final = 0.02
"""Between two records."""
A_ROUND: Final = 2 * TOPIC_PARTITIONS
"""So many records more, and every partition has had some."""


@pytest.fixture(scope="module", params=["real", "node"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker, and a node of ours, that convert groups both ways, and want to hear of newer members often."""
    if request.param == "node":
        with Broker(group_consumer_heartbeat_interval_ms=BEAT_MS, group_consumer_session_timeout_ms=6_000) as node:
            yield node.bootstrap
        return
    try:
        settings = {**QUICK, "group.initial.rebalance.delay.ms": "0"}
        with kafka.broker(tmp_path_factory.mktemp("converted"), settings=settings) as started:
            yield started.bootstrap
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")


class Flow:
    """Records that keep coming, whatever happens to the group; a value is its place in them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._address, self._topic = f"kafka://{bootstrap}", topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow")
        self.written = 0

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with penstock.Producer(self._address) as producer:
            while not self._over.wait(PAUSE_S):
                producer.send(self._topic, b"%d" % self.written, partition=self.written % TOPIC_PARTITIONS)
                self.written += 1


class Group:
    """One group, all who have ever been its members, and what it had committed last."""

    def __init__(self, bootstrap: str, flow: Flow, topic: str) -> None:
        self._bootstrap, self._flow, self._topic = bootstrap, flow, topic
        self._there: dict[str, Member] = {}
        self._ever: list[Member] = []
        self._committed: dict[int, int] = {}

    def come(self, name: str, kind: type[Member], assignor: str) -> None:
        member = self._there[name] = kind(self._bootstrap, self._topic, self._topic, assignor)
        self._ever.append(member)
        member.start()

    def go(self, *names: str) -> None:
        for name in names:
            self._there.pop(name).stop()

    @property
    def values(self) -> list[int]:
        """All that was read."""
        return [value for each in self._ever for value in each.values]

    def is_at_work(self, kind: str, said: str) -> None:
        """All partitions are shared by who is there; the group is of this kind; and all go on from here."""
        there = [*self._there.values()]
        until(lambda: shared_by_all(there), there, f"sharing: {said}")
        with penstock.Admin(f"kafka://{self._bootstrap}") as admin:
            until(lambda: admin.describe_group(self._topic).type == kind, there, f"becoming {kind}: {said}")
        before = self._flow.written
        until(lambda: self._flow.written >= before + A_ROUND, there, "writing on")
        until(lambda: {*self.values} >= {*range(before + A_ROUND)}, there, f"reading on: {said}")
        until(self._goes_on, there, f"committing on: {said}")

    def _goes_on(self) -> bool:
        """Whether more is committed of each partition than when this was last true; less is so at no time."""
        found = self.committed()
        assert all(found.get(number, 0) >= offset for number, offset in self._committed.items())
        more = all(found.get(number, 0) > self._committed.get(number, 0) for number in range(TOPIC_PARTITIONS))
        if more:
            self._committed = found
        return more

    def committed(self) -> dict[int, int]:
        with penstock.Admin(f"kafka://{self._bootstrap}") as admin:
            places = admin.group_offsets(self._topic, seconds=False)
        return {each.partition.id: each.committed for each in places if each.committed is not None}

    def ends(self) -> None:
        """The flow has ended: everything is read and committed, and next to nothing came twice."""
        there = [*self._there.values()]
        until(lambda: {*self.values} == {*range(self._flow.written)}, there, "reading everything")
        shares = [len(range(number, self._flow.written, TOPIC_PARTITIONS)) for number in range(TOPIC_PARTITIONS)]
        until(lambda: self.committed() == dict(enumerate(shares)), there, "committing everything")
        twice = [value for value, times in Counter(self.values).items() if times > 1]
        assert len(twice) <= self._flow.written / 4, "more than what was not committed yet when partitions moved"


@contextmanager
def group_on(bootstrap: str) -> Iterator[tuple[Group, Flow]]:
    topic = f"converted-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(topic, TOPIC_PARTITIONS)])
    with Flow(bootstrap, topic) as flow, ExitStack() as ends:
        group = Group(bootstrap, flow, topic)
        ends.callback(lambda: group.go(*list(group._there)))
        yield group, flow


def test_a_group_of_javas_and_ours_goes_over_and_back_while_records_keep_coming(bootstrap: str) -> None:
    with group_on(bootstrap) as (group, flow):
        group.come("classic java", CLIENTS["java"], "cooperative-sticky")
        group.come("classic ours", CLIENTS["ours"], "cooperative-sticky")
        group.is_at_work("classic", "two of the classic protocol")
        group.come("newer java", NEWER["java"], "uniform")
        group.is_at_work("consumer", "Java's first newer member has come")
        group.come("newer ours", NEWER["ours"], "uniform")
        group.is_at_work("consumer", "two of each")
        group.go("classic java", "classic ours")
        group.is_at_work("consumer", "newer ones only")
        group.come("classic again", CLIENTS["java"], "cooperative-sticky")
        group.is_at_work("consumer", "a classic one is back")
        group.go("newer java", "newer ours")
        group.is_at_work("classic", "the last newer one has left")
        flow.stop()
        group.ends()


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("clients", [("java", "java", "java"), ("ours", "java", "librdkafka")])
def test_members_are_restarted_one_by_one_with_the_other_protocol_and_back(
    bootstrap: str, assignor: str, clients: tuple[str, ...]
) -> None:
    """As operators do it: at no time is the group without members, and each has a share at each step."""
    with group_on(bootstrap) as (group, flow):
        for place, client in enumerate(clients):
            group.come(f"{place}", CLIENTS[client], assignor)
        group.is_at_work("classic", "all of the classic protocol")
        for place, client in enumerate(clients):
            group.go(f"{place}")
            group.come(f"{place}", NEWER[client], "uniform")
            group.is_at_work("consumer", f"number {place}, {client}, has gone over")
        for place, client in enumerate(clients):
            group.go(f"{place}")
            group.come(f"{place}", CLIENTS[client], assignor)
            kind = "classic" if place == len(clients) - 1 else "consumer"
            group.is_at_work(kind, f"number {place}, {client}, has gone back")
        flow.stop()
        group.ends()


@pytest.mark.long
def test_what_the_last_newer_member_had_is_read_on_when_it_is_killed(bootstrap: str) -> None:
    """Its session ends, and with it the newer group: Java's and our classic members go on with all of it."""
    with group_on(bootstrap) as (group, flow):
        group.come("java", CLIENTS["java"], "cooperative-sticky")
        group.come("ours", CLIENTS["ours"], "cooperative-sticky")
        group.is_at_work("classic", "two of the classic protocol")
        group.come("killed", Killed, "uniform")
        group.is_at_work("consumer", "a newer one has come")
        group.go("killed")
        group.is_at_work("classic", "the newer one's session has ended")
        flow.stop()
        group.ends()
