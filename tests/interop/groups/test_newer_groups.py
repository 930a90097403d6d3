"""Members by ``group.protocol=consumer``: Java's, librdkafka's and ours share, read, commit, and some of them go.

At our node, and at a real broker.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from penstock.errors import ServerError
from penstock.testing import Broker
from tests.interop.command_line import penstock_says
from tests.interop.groups.members import NEWER, TOPIC_PARTITIONS, NewerOurs
from tests.interop.groups.test_mixed_groups import EVERYTHING, shared_by_all, until, write
from tests.interop.peers.fixtures import KafkaBroker
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

BEAT_MS = 300
QUICK = {
    "group.consumer.heartbeat.interval.ms": f"{BEAT_MS}",
    "group.consumer.min.heartbeat.interval.ms": f"{BEAT_MS}",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "100",
}
"""Of a real broker."""


def meet(bootstrap: str, assignor: str, clients: Sequence[str]) -> str:
    """All share and read all; operators see them; the others go, and the first reads on from where they committed.

    Returns what the group was called.
    """
    topic = f"newer-{assignor}-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(topic, TOPIC_PARTITIONS)])
    members = [NEWER[name](bootstrap, topic, topic, assignor) for name in clients]
    first, *others = members
    seen: Callable[[], list[int]] = lambda: sorted(value for each in members for value in each.values)  # noqa: E731
    first.start()
    try:
        until(lambda: first.holding == EVERYTHING, [first], "the first assignment")
        write(first, range(300))
        until(lambda: len(seen()) >= 300, [first], "reading alone")
        with ExitStack() as ends:
            for other in others:
                other.start()
                ends.callback(other.stop)
            until(lambda: shared_by_all(members), members, "sharing")
            write(first, range(300, 600))
            until(lambda: len(seen()) >= 600, members, "reading")
            described_as_a_newer_group(bootstrap, topic, assignor, len(members))
        until(lambda: first.holding == EVERYTHING, [first], "taking over")
        write(first, range(600, 900))
        until(lambda: len(seen()) >= 900, [first], "reading on")
    finally:
        first.stop()
    assert seen() == [*range(900)], "nothing lost, nothing twice: nobody was in a hurry"
    return topic


def described_as_a_newer_group(bootstrap: str, group: str, assignor: str, members: int) -> None:
    address = f"kafka://{bootstrap}"
    listed = map(json.loads, penstock_says("groups", "list", address, "--type", "consumer", "--json").splitlines())
    assert {"group": group, "state": "Stable", "protocol": "consumer", "type": "consumer"} in listed
    told = json.loads(penstock_says("groups", "describe", address, group, "--state", "--json"))
    assert (told["type"], told["state"], told["assignor"], told["members"]) == ("consumer", "Stable", assignor, members)


@pytest.mark.parametrize("assignor", ["uniform", pytest.param("range", marks=pytest.mark.long)])
def test_javas_and_librdkafkas_members_share_a_group(assignor: str) -> None:
    with Broker(group_consumer_heartbeat_interval_ms=BEAT_MS) as broker:
        group = meet(broker.bootstrap, assignor, ["java", "librdkafka"])
        assert "generation" in penstock_says("groups", "explain", broker.address, group)


@pytest.fixture(scope="module")
def newer_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A real broker that wants to hear of members more often than by itself, so that tests need not wait for it."""
    try:
        with kafka.broker(tmp_path_factory.mktemp("newer"), settings=QUICK) as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")


@pytest.mark.parametrize("assignor", ["uniform", pytest.param("range", marks=pytest.mark.long)])
def test_our_members_share_a_group_with_javas_and_librdkafkas(newer_kafka: kafka.Broker, assignor: str) -> None:
    meet(newer_kafka.bootstrap, assignor, ["ours", "java", "librdkafka"])


@pytest.mark.long
def test_our_members_share_a_group_with_javas_and_librdkafkas_at_our_node() -> None:
    with Broker(group_consumer_heartbeat_interval_ms=BEAT_MS) as broker:
        group = meet(broker.bootstrap, "uniform", ["java", "ours", "librdkafka"])
        assert "client penstock" in penstock_says("groups", "explain", broker.address, group)


class Killed(NewerOurs):
    """A process of its own, which is killed instead of leaving."""

    def start(self) -> None:
        self._held = frozenset()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.groups.one_of_ours", self.bootstrap, self.group, self.topic],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines = threading.Thread(target=self._listen)
        self._lines.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                told = json.loads(line)
                self.values += told["values"]
                self._held = frozenset(told["holding"])

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._lines.join()
        self._held = frozenset()


@pytest.mark.long
@pytest.mark.parametrize("other", ["java", "librdkafka", "ours"])
def test_what_a_killed_member_had_goes_to_others_and_nothing_is_lost(newer_kafka: kafka.Broker, other: str) -> None:
    topic = f"killed-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(f"kafka://{newer_kafka.bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(topic, TOPIC_PARTITIONS)])
    killed = Killed(newer_kafka.bootstrap, topic, topic, "uniform")
    survivor = NEWER[other](newer_kafka.bootstrap, topic, topic, "uniform")
    members = [killed, survivor]
    survivor.start()
    try:
        killed.start()
        try:
            until(lambda: shared_by_all(members), members, "sharing")
            write(survivor, range(600))
            until(lambda: bool(killed.values), members, "reading")
        finally:
            killed.stop()
        until(lambda: survivor.holding == EVERYTHING, [survivor], "taking over when the session has ended")
        write(survivor, range(600, 900))
        until(lambda: {*killed.values, *survivor.values} >= {*range(900)}, [survivor], "reading on")
    finally:
        survivor.stop()
    # What the killed one had read and not committed comes again, and nothing else does.
    assert {*killed.values, *survivor.values} == {*range(900)}
    assert len(survivor.values) == len({*survivor.values})


@pytest.mark.long
def test_a_static_member_comes_back_to_what_it_had(newer_kafka: kafka.Broker) -> None:
    topic = f"static-{uuid.uuid4().hex[:8]}"
    address = f"kafka://{newer_kafka.bootstrap}/{topic}"
    with penstock.Admin(f"kafka://{newer_kafka.bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(topic, 4)])
    options = {"group": topic, "group_protocol": "consumer"}
    with penstock.Consumer(address, **options) as other:
        held: list[frozenset[penstock.Partition]] = []
        for _ in range(2):
            with penstock.Consumer(address, group_instance_id="one", **options) as static:
                together(static, other, lambda: len(static.assignment()) == len(other.assignment()) == 2)
                held.append(static.assignment())
                with (
                    penstock.Consumer(address, group_instance_id="one", **options) as rival,
                    pytest.raises(ServerError, match="UNRELEASED_INSTANCE_ID"),
                ):
                    rival.poll(20)
            together(other, other, lambda: other.poll(1.0) is not None)
            assert len(other.assignment()) == 2, "its place is kept while it is away"
        assert held[0] == held[1]


def together(one: penstock.Consumer, other: penstock.Consumer, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline, (one.assignment(), other.assignment())
        one.poll(0.05)
        other.poll(0.05)


@pytest.mark.long
def test_a_broker_without_the_protocol_says_so_and_we_say_what_to_do(tmp_path: Path) -> None:
    try:
        with kafka.broker(tmp_path, settings={"group.coordinator.rebalance.protocols": "classic"}) as old:
            with penstock.Admin(f"kafka://{old.bootstrap}") as admin:
                admin.create_topics([penstock.NewTopic("t", 1)])
            with (
                penstock.Consumer(f"kafka://{old.bootstrap}/t", group="g", group_protocol="consumer") as consumer,
                pytest.raises(ServerError, match=r"UNSUPPORTED_VERSION.*group_protocol=classic"),
            ):
                consumer.poll(20)
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")


@pytest.mark.long
def test_brokers_of_3_9_have_it_in_an_earlier_version(kafka_broker: KafkaBroker) -> None:
    meet(kafka_broker(kafka.VERSIONS[0]).bootstrap, "uniform", ["ours", "ours"])
