"""Consumers by ``group_protocol="consumer"`` at a node: what they and their listeners go through, in real time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from penstock.client import Admin, CommitFailed, Consumer, Producer, RebalanceListener
from penstock.errors import ServerError, UsageError
from penstock.interfaces import NewTopic
from penstock.model import Committed, Partition
from penstock.testing import Broker

_names = itertools.count(1)
NEWER: dict[str, Any] = {"group_protocol": "consumer", "fetch_max_wait_ms": 50, "metadata_max_age_ms": 100}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics=False, group_consumer_heartbeat_interval_ms=30, group_max_size=2) as running:
        yield running


class Heard(RebalanceListener):
    """What was told of partitions, of which there were any."""

    def __init__(self) -> None:
        self.told: list[tuple[str, frozenset[int]]] = []

    def _hear(self, what: str, partitions: Collection[Partition]) -> None:
        if partitions:
            self.told.append((what, frozenset(each.id for each in partitions)))

    def assigned(self, partitions: Collection[Partition]) -> None:
        self._hear("assigned", partitions)

    def revoked(self, partitions: Collection[Partition]) -> None:
        self._hear("revoked", partitions)

    def lost(self, partitions: Collection[Partition]) -> None:
        self._hear("lost", partitions)


def topic_of(broker: Broker, partitions: int, name: str = "") -> str:
    name = name or f"topic-{next(_names)}"
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic(name, partitions)])
    return name


def polled(consumers: Collection[Consumer], done: Callable[[], bool], values: list[int] | None = None) -> None:
    """Poll until it is done; ``values`` gets what came meanwhile."""
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            found = [int(record.value or b"-1") for record in consumer.poll(0.02)]
            if values is not None:
                values += found


def numbers(consumer: Consumer) -> set[int]:
    return {each.id for each in consumer.assignment()}


def fill(broker: Broker, topic: str, values: range, partitions: int) -> None:
    with Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, b"%d" % value, partition=value % partitions)


def test_only_what_moves_is_revoked_and_what_was_handled_is_committed_before(broker: Broker) -> None:
    topic, heard = topic_of(broker, 4), Heard()
    fill(broker, topic, range(40), 4)
    options = {**NEWER, "group": topic, "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
    with Consumer(broker.address, **options) as first:
        first.subscribe([topic], heard)
        read: list[int] = []
        polled([first], lambda: len(read) == 40, read)
        with Consumer(f"{broker.address}/{topic}", **options) as second:
            again: list[int] = []
            polled([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, again)
            fill(broker, topic, range(40, 48), 4)
            polled([first, second], lambda: len(again) >= 8, again)
            moved = numbers(second)
        polled([first], lambda: len(numbers(first)) == 4)
    assert sorted(again) == [*range(40, 48)], "what was handled does not come again"
    assert heard.told[:3] == [("assigned", {0, 1, 2, 3}), ("revoked", moved), ("assigned", moved)]


def test_another_subscription_is_the_same_members(broker: Broker) -> None:
    one, other, heard = topic_of(broker, 2), topic_of(broker, 3), Heard()
    with Consumer(broker.address, group=one, **NEWER) as consumer:
        consumer.subscribe([one], heard)
        polled([consumer], lambda: len(numbers(consumer)) == 2)
        before = consumer.group_metadata()
        consumer.subscribe([other], heard)
        polled([consumer], lambda: numbers(consumer) == {0, 1, 2})
        after = consumer.group_metadata()
        assert after.member_id == before.member_id
        assert after.generation > before.generation
        assert heard.told == [("assigned", {0, 1}), ("revoked", {0, 1}), ("assigned", {0, 1, 2})]
        consumer.unsubscribe()
        with Admin(broker.address) as admin:
            assert admin.describe_group(one).members == ()


def test_a_pattern_finds_topics_and_partitions_that_come_later(broker: Broker) -> None:
    stem = f"stem-{next(_names)}"
    with Consumer(broker.address, group=stem, **NEWER) as consumer:
        consumer.subscribe(pattern=f"^{stem}-.*")
        polled([consumer], lambda: bool(consumer.group_metadata().member_id))
        topic = topic_of(broker, 1, f"{stem}-1")
        polled([consumer], lambda: consumer.assignment() == {Partition(topic, 0)})
        with Admin(broker.address) as admin:
            admin.add_partitions(topic, 2)
        polled([consumer], lambda: numbers(consumer) == {0, 1})


@pytest.mark.parametrize(("instance_id", "left"), [(None, 0), ("one", 1)])
def test_who_does_not_poll_leaves_and_has_lost_what_it_had(broker: Broker, instance_id: str | None, left: int) -> None:
    topic, heard = topic_of(broker, 2), Heard()
    with Consumer(
        broker.address, group=topic, group_instance_id=instance_id, max_poll_interval_ms=200, **NEWER
    ) as consumer:
        consumer.subscribe([topic], heard)
        polled([consumer], lambda: len(numbers(consumer)) == 2)
        with Admin(broker.address) as admin:
            deadline = time.monotonic() + 20
            while len(admin.describe_group(topic).members) != left or not _away(admin, topic):
                assert time.monotonic() < deadline
        polled([consumer], lambda: heard.told[-2:] == [("lost", {0, 1}), ("assigned", {0, 1})])


def _away(admin: Admin, group: str) -> bool:
    """Whether who is still there, a static member, has said that it goes: it is not stable then."""
    return all(member.epoch == -2 for member in admin.describe_group(group).members)


def test_who_was_thrown_out_has_lost_what_it_had_and_comes_back(broker: Broker) -> None:
    topic, heard = topic_of(broker, 2), Heard()
    with Consumer(broker.address, group=topic, **NEWER) as consumer:
        consumer.subscribe([topic], heard)
        polled([consumer], lambda: len(numbers(consumer)) == 2)
        with Admin(broker.address) as admin:
            admin.remove_members(topic)
        polled([consumer], lambda: heard.told[-2:] == [("lost", {0, 1}), ("assigned", {0, 1})])


@pytest.mark.parametrize("newer", [True, False])
def test_who_commits_after_the_group_went_on_is_told_so_whoever_knows_it_first(broker: Broker, newer: bool) -> None:
    topic, heard = topic_of(broker, 2), Heard()
    protocol: dict[str, Any] = dict(NEWER) if newer else {"heartbeat_interval_ms": 20, "session_timeout_ms": 6_000}
    with Consumer(broker.address, group=topic, **protocol) as consumer:
        consumer.subscribe([topic], heard)
        polled([consumer], lambda: len(numbers(consumer)) == 2)
        consumer.commit({Partition(topic, 0): 1})
        with Admin(broker.address) as admin:
            admin.remove_members(topic)
        told = []
        for _ in range(2):  # the coordinator says the first; then the heartbeats have been told so, too
            with pytest.raises(CommitFailed, match=r"this consumer cannot commit: .*poll\(\) joins again") as raised:
                consumer.commit({Partition(topic, 0): 2})
            told.append(raised.value)
            deadline = time.monotonic() + 20
            while "gone" not in repr(consumer):
                assert time.monotonic() < deadline
        assert [each.retriable for each in told] == [False, False]
        assert "gone of its group" in str(told[1])
        assert consumer.committed([Partition(topic, 0)])[Partition(topic, 0)] == Committed(1)
        polled([consumer], lambda: heard.told[-2:] == [("lost", {0, 1}), ("assigned", {0, 1})])
        consumer.commit({Partition(topic, 0): 2})


def test_refusals_say_what_to_do(broker: Broker) -> None:
    topic = topic_of(broker, 1)
    address = f"{broker.address}/{topic}"
    with (
        Consumer(address, group=topic, group_remote_assignor="fair", **NEWER) as unfair,
        pytest.raises(ServerError, match=r"UNSUPPORTED_ASSIGNOR.*uniform, range"),
    ):
        unfair.poll(5)
    with Consumer(address, group=topic, **NEWER) as first, Consumer(address, group=topic, **NEWER) as second:
        polled([first, second], lambda: all(each.group_metadata().member_id for each in (first, second)))
        with (
            Consumer(address, group=topic, **NEWER) as third,
            pytest.raises(ServerError, match=r"GROUP_MAX_SIZE_REACHED.*fewer members"),
        ):
            third.poll(5)
        with pytest.raises(UsageError, match="no member can ask for it"):
            first.enforce_rebalance()


def test_where_groups_do_not_go_over_a_group_of_the_other_kind_says_so() -> None:
    with Broker(auto_create_topics=False, group_consumer_migration_policy="disabled") as node:
        address = f"{node.address}/{topic_of(node, 1)}"
        with Consumer(address, group="classic", heartbeat_interval_ms=50) as classic:
            polled([classic], lambda: bool(classic.assignment()))
            with (
                Consumer(address, group="classic", **NEWER) as newer,
                pytest.raises(ServerError, match="group_protocol=classic"),
            ):
                newer.poll(5)


def test_a_group_goes_over_with_its_members() -> None:
    with Broker(auto_create_topics=False, group_consumer_heartbeat_interval_ms=30) as node:
        address = f"{node.address}/{topic_of(node, 2)}"
        with Consumer(address, group="mixed", heartbeat_interval_ms=50) as classic:
            polled([classic], lambda: len(classic.assignment()) == 2)
            with Consumer(address, group="mixed", **NEWER) as newer:
                both = [classic, newer]
                polled(both, lambda: all(len(each.assignment()) == 1 for each in both))
                assert not set(classic.assignment()) & set(newer.assignment())
            polled([classic], lambda: len(classic.assignment()) == 2)
