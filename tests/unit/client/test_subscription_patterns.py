"""Patterns for a group's servers to match: what can be given, and what is refused where no server matches them."""

from __future__ import annotations

import re

import pytest

from penstock import Consumer, SubscriptionPattern
from penstock.client import AsyncConsumer
from penstock.client.arguments import TopicNames
from penstock.client.consumer.subscription import Subscribed, subscribed_to
from penstock.errors import UsageError
from penstock.interfaces import LogClient
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ORDERS = SubscriptionPattern("orders-.*")


def subscribed(topics: object, pattern: object = None) -> Subscribed:
    class Anything(LogClient):
        """A log whose topics may have any name."""

    names = TopicNames(Anything())  # type: ignore[abstract]
    return subscribed_to(names, topics, pattern)


@pytest.mark.parametrize(
    "found", [subscribed(ORDERS), subscribed([ORDERS]), subscribed(None, ORDERS), subscribed(ORDERS, ORDERS)]
)
def test_it_is_given_as_a_topic_among_topics_or_as_the_pattern(found: Subscribed) -> None:
    assert (found.names, found.patterns, found.for_servers) == (frozenset(), (), ORDERS)
    assert found.topics == frozenset(), "what it stands for, servers say"
    assert found.means("anything"), "only servers know that it is not meant"


def test_names_may_stand_beside_it() -> None:
    found = subscribed(["a", ORDERS])
    assert (found.names, found.for_servers) == ({"a"}, ORDERS)
    assert not found.same(subscribed(["a"]))
    assert not found.same(subscribed(["a", SubscriptionPattern("orders-.+")]))
    assert found.same(subscribed(["a"], SubscriptionPattern("orders-.*")))


@pytest.mark.parametrize(
    ("topics", "says"),
    [
        ([ORDERS, SubscriptionPattern("other")], "one SubscriptionPattern a member"),
        ([ORDERS, "^other"], "one or the other"),
        ([ORDERS, re.compile("other")], "one or the other"),
    ],
)
def test_two_who_match_are_one_too_many(topics: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        subscribed(topics)
    with pytest.raises(UsageError, match="one or the other"):
        subscribed(ORDERS, "other")


@pytest.mark.parametrize(("given", "says"), [("", "is empty"), (b"a", "must be a string"), (None, "must be a string")])
def test_a_pattern_is_some_text(given: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        SubscriptionPattern(given)


@pytest.mark.parametrize(("group", "says"), [("g", "a SubscriptionPattern needs a group"), (None, "there is no group")])
def test_where_nobody_matches_it_a_subscription_is_refused_and_the_one_before_stays(
    log: FakeLog, group: str | None, says: str
) -> None:
    async def main() -> None:
        log.write("t", [b"read on"])
        async with AsyncConsumer("fake://h:1", group=group) as consumer:
            with pytest.raises(UsageError, match=rf"{says}.*re\.compile"):
                await consumer.subscribe(ORDERS)
            await consumer.subscribe("t")
            with pytest.raises(UsageError, match=says):
                await consumer.subscribe(ORDERS)
            assert [record.value for record in await consumer.poll(10)] == [b"read on"]
            assert consumer.subscription() == {"t"}

    run(main())


def test_every_protocol_says_what_to_do_instead() -> None:
    with Broker() as broker:
        for scheme, options, says in (
            ("kafka", {"group": "g"}, r"group_protocol='consumer'.*re\.compile"),
            ("kafka", {"group": "g", "group_protocol": "classic"}, r"group_protocol='consumer'.*re\.compile"),
            ("kafka", {}, r"there is no group.*group_protocol='consumer'.*re\.compile"),
            ("rocketmq", {"group": "g"}, r"a SubscriptionPattern needs a group.*re\.compile"),
            ("rocketmq", {}, r"there is no group"),
            ("tubemq", {"group": "g"}, r"cannot subscribe by pattern.*Name the topics"),
            ("tubemq", {}, r"there is no group"),
        ):
            with (
                Consumer(f"{scheme}://{broker.bootstrap}", **options) as consumer,
                pytest.raises(UsageError, match=says),
            ):
                consumer.subscribe(ORDERS)
