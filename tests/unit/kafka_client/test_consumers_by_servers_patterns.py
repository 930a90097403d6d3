"""Consumers whose node matches their pattern: what they own, say and hear of as topics and subscriptions change."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client import Admin, AsyncConsumer, Consumer, Producer, SubscriptionPattern
from penstock.errors import ServerError
from penstock.interfaces import NewTopic
from penstock.model import Partition
from penstock.testing import Broker
from tests.unit.kafka_client.test_consumers_in_newer_groups import Heard, polled

NEWER: dict[str, Any] = {"group_protocol": "consumer", "fetch_max_wait_ms": 50}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics=False, group_consumer_heartbeat_interval_ms=30) as running:
        yield running


@pytest.fixture
def prefix() -> str:
    return f"p{uuid.uuid4().hex[:6]}-"


def make(broker: Broker, *names: str) -> None:
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic(name, 1) for name in names])
    with Producer(broker.address) as producer:
        for name in names:
            producer.send(name, b"1")


def owns(consumer: Consumer, *names: str) -> Callable[[], bool]:
    return lambda: consumer.assignment() == {Partition(name, 0) for name in names}


def test_topics_that_match_are_read_and_told_as_they_come_and_go(broker: Broker, prefix: str) -> None:
    make(broker, f"{prefix}a", f"other-{prefix}a")
    heard = Heard()
    with Consumer(broker.address, group=prefix, **NEWER) as consumer:
        consumer.subscribe(SubscriptionPattern(f"{prefix}.*"), heard)
        assert consumer.subscription() == frozenset(), "nobody has said yet what it stands for"
        values: list[int] = []
        polled([consumer], lambda: values == [1], values)
        make(broker, f"{prefix}b")
        polled([consumer], lambda: values == [1, 1], values)
        assert consumer.subscription() == {f"{prefix}a", f"{prefix}b"}
        with Admin(broker.address) as admin:
            admin.delete_topics([f"{prefix}a"])
        polled([consumer], owns(consumer, f"{prefix}b"))
        assert consumer.subscription() == {f"{prefix}b"}
    zero = frozenset({0})
    assert heard.told == [("assigned", zero), ("assigned", zero), ("revoked", zero), ("revoked", zero)]


def test_a_subscription_becomes_a_pattern_and_names_again(broker: Broker, prefix: str) -> None:
    make(broker, f"{prefix}a", f"{prefix}b")
    with Consumer(f"{broker.address}/{prefix}a", group=prefix, **NEWER) as consumer:
        polled([consumer], owns(consumer, f"{prefix}a"))
        consumer.subscribe(pattern=SubscriptionPattern(f"{prefix}[b-z]"))
        polled([consumer], owns(consumer, f"{prefix}b"))
        consumer.subscribe([f"{prefix}a", SubscriptionPattern(f"{prefix}[b-z]")])
        polled([consumer], owns(consumer, f"{prefix}a", f"{prefix}b"))
        consumer.subscribe([f"{prefix}a"])
        polled([consumer], owns(consumer, f"{prefix}a"))
        with Admin(broker.address) as admin:

            def forgotten() -> bool:
                (member,) = admin.describe_group(prefix).members
                return member.partitions == member.target == {Partition(f"{prefix}a", 0)}

            polled([consumer], forgotten)


def test_two_members_share_what_matches(broker: Broker, prefix: str) -> None:
    make(broker, f"{prefix}a", f"{prefix}b")
    with (
        Consumer(broker.address, group=prefix, **NEWER) as one,
        Consumer(broker.address, group=prefix, **NEWER) as two,
    ):
        for each in (one, two):
            each.subscribe(SubscriptionPattern(f"{prefix}."))
        polled([one, two], lambda: len(one.assignment()) == len(two.assignment()) == 1)
        assert one.assignment() != two.assignment()


def test_a_pattern_that_cannot_be_read_is_raised_by_a_poll(broker: Broker, prefix: str) -> None:
    make(broker, f"{prefix}a")
    with Consumer(f"{broker.address}/{prefix}a", group=prefix, **NEWER) as consumer:
        polled([consumer], owns(consumer, f"{prefix}a"))
        consumer.subscribe(SubscriptionPattern("("))
        with pytest.raises(ServerError, match=r"INVALID_REGULAR_EXPRESSION.*missing \)"):
            polled([consumer], lambda: False)  # what it keeps is read on meanwhile
        consumer.subscribe(SubscriptionPattern(f"{prefix}a"))
        polled([consumer], owns(consumer, f"{prefix}a"))


def test_the_same_for_asyncio(broker: Broker, prefix: str) -> None:
    make(broker, f"{prefix}a")

    async def main() -> None:
        async with AsyncConsumer(broker.address, group=prefix, **NEWER) as consumer:
            await consumer.subscribe(SubscriptionPattern(f"{prefix}a"))
            async with asyncio.timeout(20):
                while not (batch := await consumer.poll(1)):
                    pass
            assert [record.topic for record in batch] == [f"{prefix}a"]

    asyncio.run(main())
