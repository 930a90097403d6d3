"""Members of every client in one group, each of them as leader: all partitions have one owner, and nothing is lost."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

import penstock
from tests.interop.groups.members import CLIENTS, TOPIC_PARTITIONS, Member
from tests.interop.peers.fixtures import KafkaBroker

pytestmark = pytest.mark.interop

WITHIN_S = 90.0
EVERYTHING = frozenset(range(TOPIC_PARTITIONS))
LEADERS = [(name, leader) for leader, kind in CLIENTS.items() for name in kind.knows]


def until(what: Callable[[], bool], members: Sequence[Member], said: str) -> None:
    deadline, pause = time.monotonic() + WITHIN_S, threading.Event()
    while not what():
        assert not [each.failure for each in members if each.failure], [each.failure for each in members]
        held = {type(each).__name__: sorted(each.holding) for each in members}
        assert time.monotonic() < deadline, f"{said} took longer than {WITHIN_S:.0f} s; held: {held}"
        pause.wait(0.05)


def shared_by_all(members: Sequence[Member]) -> bool:
    held = [each.holding for each in members]
    return all(held) and frozenset().union(*held) == EVERYTHING and sum(map(len, held)) == TOPIC_PARTITIONS


@contextmanager
def group_of(bootstrap: str, assignor: str, clients: Sequence[str]) -> Iterator[list[Member]]:
    """The members, the first of which leads because it was there alone."""
    topic = f"mixed-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(topic, TOPIC_PARTITIONS)])
    members = [CLIENTS[name](bootstrap, topic, topic, assignor) for name in clients]
    with ExitStack() as ends:
        for member in members:
            member.start()
            ends.callback(member.stop)
            if member is members[0]:
                until(lambda: members[0].holding == EVERYTHING, members[:1], "the leader's first assignment")
        yield members


def write(member: Member, values: range) -> None:
    with penstock.Producer(f"kafka://{member.bootstrap}") as producer:
        for value in values:
            producer.send(member.topic, b"%d" % value, partition=value % TOPIC_PARTITIONS)


def meet(bootstrap: str, assignor: str, clients: Sequence[str]) -> None:
    """All share, read all; the leader goes, the others share and read all."""
    with group_of(bootstrap, assignor, clients) as members:
        until(lambda: shared_by_all(members), members, "sharing")
        seen: Callable[[], set[int]] = lambda: {value for each in members for value in each.values}  # noqa: E731
        write(members[0], range(600))
        until(lambda: seen() >= {*range(600)}, members, "reading")
        leader, *others = members
        leader.stop()
        until(lambda: shared_by_all(others), others, "sharing what the leader had")
        write(leader, range(600, 1_200))
        until(lambda: seen() >= {*range(1_200)}, others, "reading on")
        again = [value for value, times in Counter(v for each in members for v in each.values).items() if times > 1]
        assert len(again) <= 600, "more than what was not committed yet"
        leader.stop = lambda: None  # type: ignore[method-assign]


@pytest.mark.parametrize("assignor", ["cooperative-sticky"])
def test_we_share_a_group_with_java_and_librdkafka(kafka_broker: KafkaBroker, assignor: str) -> None:
    meet(kafka_broker().bootstrap, assignor, ["java", "ours", "librdkafka"])


@pytest.mark.long
@pytest.mark.parametrize(("assignor", "leader"), LEADERS)
def test_whoever_leads_all_partitions_have_one_owner(bootstrap: str, assignor: str, leader: str) -> None:
    others = [name for name, kind in CLIENTS.items() if assignor in kind.knows and name != leader]
    meet(bootstrap, assignor, [leader, *others])
