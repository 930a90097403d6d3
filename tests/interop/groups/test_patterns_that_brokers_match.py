"""Patterns that a group's servers match (KIP-848): topics that come and go, subscriptions that change, static members.

At a real broker and at our node, with the same words; and a member of Java's with the same pattern beside ours.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from penstock import Admin, Consumer, NewTopic, Partition, PenstockError, Producer, SubscriptionPattern
from penstock.errors import ServerError
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.groups.members import NewerJava
from tests.interop.groups.test_mixed_groups import until
from tests.interop.groups.test_newer_groups import BEAT_MS, QUICK
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=["real", "node"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker, and a node of ours, that want to hear of members often."""
    if request.param == "node":
        with Broker(auto_create_topics=False, group_consumer_heartbeat_interval_ms=BEAT_MS) as node:
            yield node.address
        return
    try:
        with kafka.broker(tmp_path_factory.mktemp("patterns"), settings=QUICK) as started:
            yield f"kafka://{started.bootstrap}"
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")


@pytest.fixture
def prefix() -> str:
    return f"p{uuid.uuid4().hex[:6]}-"


def make(address: str, topics: Mapping[str, int]) -> None:
    with Admin(address) as admin:
        admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()])
    with Producer(address) as producer:
        for name in topics:
            producer.send(name, name.encode(), partition=0)


def member(address: str, group: str, **options: Any) -> Consumer:
    return Consumer(address, group=group, group_protocol="consumer", **options)


def parts(topics: Mapping[str, int]) -> set[Partition]:
    return {Partition(name, number) for name, count in topics.items() for number in range(count)}


class Reading:
    """A consumer, and whose records it got."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.got: list[str] = []

    def has(self, topics: Mapping[str, int]) -> None:
        """It comes to own all of these and nothing else, and says so."""
        comes_to(self._owns, parts(topics), within_s=40)
        assert self.consumer.subscription() == {*topics}

    def reads(self, *topics: str) -> None:
        """Since the last time exactly these came, once each."""
        comes_to(self._got, sorted(topics), within_s=20)
        self.consumer.commit()
        self.got.clear()

    def _owns(self) -> set[Partition]:
        self.poll()
        return {*self.consumer.assignment()}

    def _got(self) -> list[str]:
        self.poll()
        return sorted(self.got)

    def poll(self) -> None:
        self.got += [(message.value or b"").decode() for message in self.consumer.poll(0.1)]


def test_topics_come_and_go(address: str, prefix: str) -> None:
    one, two, three = f"{prefix}one", f"{prefix}two", f"{prefix}three"
    make(address, {one: 2, two: 1, f"not-{one}": 1, f"{one}-but-longer": 1})
    with member(address, prefix) as consumer:
        reading = Reading(consumer)
        consumer.subscribe(SubscriptionPattern(f"{prefix}[a-z]+"))
        reading.has({one: 2, two: 1})
        reading.reads(one, two)
        make(address, {three: 2})
        reading.has({one: 2, two: 1, three: 2})
        reading.reads(three)
        with Admin(address) as admin:
            admin.delete_topics([two])
        reading.has({one: 2, three: 2})
        make(address, {two: 3})
        reading.has({one: 2, two: 3, three: 2})
        reading.reads(two)


def test_a_group_of_a_pattern_for_which_nothing_is_there_yet(address: str, prefix: str) -> None:
    with member(address, prefix) as consumer:
        reading = Reading(consumer)
        consumer.subscribe(pattern=SubscriptionPattern(f"{prefix}.*"))
        reading.has({})
        make(address, {f"{prefix}late": 2})
        reading.has({f"{prefix}late": 2})
        reading.reads(f"{prefix}late")


def test_subscriptions_change_between_names_and_patterns(address: str, prefix: str) -> None:
    one, two, named = f"{prefix}one", f"{prefix}two", f"named-{prefix}"
    make(address, {one: 1, two: 1, named: 1})
    with member(address, prefix) as consumer:
        reading = Reading(consumer)
        consumer.subscribe([named])
        reading.has({named: 1})
        reading.reads(named)
        consumer.subscribe(SubscriptionPattern(f"{prefix}.*"))
        reading.has({one: 1, two: 1})
        reading.reads(one, two)
        consumer.subscribe([named, SubscriptionPattern(one)])
        reading.has({named: 1, one: 1})
        consumer.subscribe(SubscriptionPattern(f"(named-)?{prefix}(two)?"))
        reading.has({named: 1, two: 1})
        consumer.subscribe([one])
        reading.has({one: 1})
        make(address, {f"{prefix}three": 1})
        reading.reads()
        reading.has({one: 1})


def test_what_is_no_regular_expression_is_said_in_the_brokers_words(address: str, prefix: str) -> None:
    make(address, {f"{prefix}one": 1})
    with member(address, prefix) as consumer:
        consumer.subscribe(SubscriptionPattern(f"({prefix}.*"))
        with pytest.raises(ServerError, match=r"INVALID_REGULAR_EXPRESSION \(128\).*missing (closing )?\).*RE2"):
            consumer.poll(20)
        reading = Reading(consumer)
        consumer.subscribe(SubscriptionPattern(f"({prefix}.*)"))
        reading.has({f"{prefix}one": 1})
        consumer.subscribe(SubscriptionPattern("(?=lookahead)"))  # Python's has it, RE2 has not
        with pytest.raises(ServerError, match=r"INVALID_REGULAR_EXPRESSION"):
            comes_to(lambda: reading.poll() is not None, True, within_s=20)  # what it keeps is read on meanwhile
        consumer.subscribe([f"{prefix}one"])
        reading.has({f"{prefix}one": 1})
        reading.reads(f"{prefix}one")


def test_a_static_member_comes_back_to_its_pattern_or_to_something_else(address: str, prefix: str) -> None:
    one, two, named = f"{prefix}one", f"{prefix}two", f"named-{prefix}"
    make(address, {one: 2, two: 1, named: 1})
    for subscribed, topics in (
        (SubscriptionPattern(f"{prefix}.*"), {one: 2, two: 1}),
        (SubscriptionPattern(f"{prefix}.*"), {one: 2, two: 1}),
        ([named], {named: 1}),
        (SubscriptionPattern(one), {one: 2}),
        ([two], {two: 1}),
    ):
        with member(address, prefix, group_instance_id="i") as consumer:
            consumer.subscribe(subscribed)
            reading = Reading(consumer)
            reading.has(topics)

            def given(reading: Reading = reading) -> set[Partition]:
                reading.poll()
                with Admin(address) as admin:
                    (told,) = admin.describe_group(prefix).members
                    return {*told.partitions}

            # What the broker gave it for what its instance wanted before, nobody would read.
            comes_to(given, parts(topics), within_s=20)


class JavaByPattern(NewerJava):
    """It is told the same pattern."""

    options: Mapping[str, str] = {"protocol": "consumer", "by": "pattern"}


def test_java_members_share_by_the_same_pattern(address: str, prefix: str) -> None:
    topic, pattern = f"{prefix}one", f"{prefix}o.e"
    with Admin(address) as admin:
        admin.create_topics([NewTopic(topic, 6, 1)])
    java = JavaByPattern(address.removeprefix("kafka://"), prefix, pattern, "uniform")
    java.start()
    try:
        with member(address, prefix) as consumer:
            consumer.subscribe(SubscriptionPattern(pattern))

            def shared() -> bool:
                consumer.poll(0.1)
                mine = {each.id for each in consumer.assignment()}
                return len(mine) == 3 and not mine & java.holding and mine | java.holding == {*range(6)}

            until(shared, [java], "sharing")
        until(lambda: java.holding == {*range(6)}, [java], "taking over")
    finally:
        java.stop()


def test_with_the_classic_protocol_nobody_matches(address: str, prefix: str) -> None:
    with (
        Consumer(address, group=prefix) as consumer,
        pytest.raises(PenstockError, match=r"group_protocol='consumer'.*re\.compile"),
    ):
        consumer.subscribe(SubscriptionPattern("a"))
