"""Six static members (KIP-345) are restarted one by one: each is back in time, and nobody else hears of it.

At our node and at a real broker; members are ours, of both protocols, and Java's.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from penstock.config import OptionValue
from tests.eventually import comes_to
from tests.interop.groups.rolling import PARTITIONS, Flow, Writer, await_shared, running, shown
from tests.interop.node_or_kafka import WHERE, node_or_kafka
from tools.peers import kafka_java
from tools.peers.java_driver import Driver
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

MEMBERS, WITHIN_S, QUIET_S = 6, 60.0, 2.0
CLASSIC = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 300}
KINDS: Mapping[str, Mapping[str, OptionValue]] = {
    "range": {"assignors": "range", **CLASSIC},
    "sticky": {"assignors": "sticky", **CLASSIC},
    "cooperative-sticky": {"assignors": "cooperative-sticky", **CLASSIC},
    "consumer": {"group_protocol": "consumer"},
}
OFTEN = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 500}
"""How often members of newer groups are to be heard of: what changes for them they are told by that."""


def new_topic(bootstrap: str) -> str:
    name = f"static-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(name, PARTITIONS)])
    return name


def settled(generations: Callable[[], set[int]]) -> set[int]:
    """The one that all are in, once nobody has gone on from it for a while: a rebalance may follow another."""
    deadline, pause = time.monotonic() + WITHIN_S, threading.Event()
    found, since = generations(), time.monotonic()
    while len(found) != 1 or time.monotonic() < since + QUIET_S:
        assert time.monotonic() < deadline, f"still in generations {found}"
        pause.wait(0.05)
        now = generations()
        if now != found:
            found, since = now, time.monotonic()
    return found


def ours_are_restarted(bootstrap: str, kind: str) -> Flow:
    options = [{**KINDS[kind], "group_instance_id": f"member-{n}"} for n in range(MEMBERS)]
    with running(f"kafka://{bootstrap}", new_topic(bootstrap), options) as (flow, members, writer):
        generations = settled(lambda: {each.generation for each in members})
        flow.forget()
        for place, leaving in enumerate(list(members)):
            others = [each for each in members if each is not leaving]
            heard = [list(each.told) for each in others]
            leaving.stop()
            members[place] = back = leaving.again()
            await_shared(members)
            assert [each.told for each in others] == heard, "somebody else heard of it"
            assert (back.told, back.holding) == (["assigned"], leaving.holding)
        stalls = dict(flow.stalls)
        writer.stop()
        flow.wait(range(writer.written))
        assert settled(lambda: {each.generation for each in members}) == generations
    print("longest gaps of partitions over a restart of each member, in seconds:", shown(stalls))
    return flow


def test_nobody_hears_of_static_members_that_are_restarted_at_our_node(tmp_path: Path) -> None:
    with node_or_kafka("node", tmp_path / "server", OFTEN) as bootstrap:
        flow = ours_are_restarted(bootstrap, "cooperative-sticky")
    assert not flow.read_twice, "each had committed what it read"


@pytest.mark.long
@WHERE
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_hears_of_static_members_that_are_restarted(tmp_path: Path, kind: str, where: str) -> None:
    with node_or_kafka(where, tmp_path / "server", OFTEN) as bootstrap:
        flow = ours_are_restarted(bootstrap, kind)
    assert not flow.read_twice


def heard(member: Driver) -> list[tuple[str, tuple[int, ...]]]:
    """What one of Java's was told of its partitions, but for calls that name none."""
    told = member.events("assigned", "revoked", "lost")
    return [(line["event"], tuple(line["partitions"])) for line in told if line["partitions"]]


def held(member: Driver) -> frozenset[int]:
    now: frozenset[int] = frozenset()
    for event, partitions in heard(member):
        now = now | {*partitions} if event == "assigned" else now - {*partitions}
    return now


class Javas:
    """Java's members of one group, each of which may come back in a new process."""

    def __init__(self, bootstrap: str, topic: str, running: ExitStack) -> None:
        self._options = {
            "bootstrap": bootstrap,
            "group": topic,
            "topic": topic,
            "assignors": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "session": f"{CLASSIC['session_timeout_ms']}",
        }
        self._running = running
        self.every: list[Driver] = []
        self.members = [self.start(n) for n in range(MEMBERS)]

    def start(self, number: int) -> Driver:
        try:
            begun = kafka_java.driver("Member", {**self._options, "instance": f"member-{number}"})
            self.every.append(self._running.enter_context(begun))
        except Unavailable as reason:
            pytest.skip(f"no Java client: {reason}")
        return self.every[-1]

    def share(self) -> bool:
        shares = [held(each) for each in self.members]
        return all(shares) and sum(map(len, shares)) == len(frozenset().union(*shares)) == PARTITIONS

    def generations(self) -> set[int]:
        return {line["number"] for each in self.members for line in each.events("generation")[-1:]}

    def read(self) -> set[int]:
        return {int(line["value"]) for each in self.every for line in each.messages}


@pytest.mark.long
@WHERE
def test_nobody_hears_of_javas_that_are_restarted_or_killed(tmp_path: Path, where: str) -> None:
    with node_or_kafka(where, tmp_path / "server", OFTEN) as bootstrap, ExitStack() as ends:
        topic = new_topic(bootstrap)
        group = Javas(bootstrap, topic, ends)
        comes_to(group.share, True, WITHIN_S)
        generations = settled(group.generations)
        writer = Writer(f"kafka://{bootstrap}", topic)
        ends.callback(writer.stop)
        for number, leaving in enumerate(list(group.members)):
            others = [each for each in group.members if each is not leaving]
            before, had = [heard(each) for each in others], held(leaving)
            leaving.kill() if number % 2 else leaving.stop()
            group.members[number] = back = group.start(number)
            comes_to(lambda: held(back), had, WITHIN_S)  # noqa: B023
            assert [heard(each) for each in others] == before, "somebody else heard of it"
        writer.stop()
        comes_to(lambda: group.read() >= set(range(writer.written)), True, WITHIN_S)
        assert settled(group.generations) == generations
