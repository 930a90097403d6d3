"""A subscription that is changed: who is a member stays it, and what both subscriptions mean is read on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from penstock.client import AsyncConsumer, AsyncProducer, RebalanceListener
from penstock.model import Partition
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.told: list[tuple[str, set[str]]] = []

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.told.append(("assigned", {each.topic for each in partitions}))

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.told.append(("revoked", {each.topic for each in partitions}))

    def lost(self, partitions: Collection[Partition]) -> None:
        self.told.append(("lost", {each.topic for each in partitions}))


async def read(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [each.value for each in await consumer.poll(10)]
    return found


def test_without_a_group_topics_that_stay_are_read_on(log: FakeLog) -> None:
    async def main() -> None:
        log.write("t", [b"1", b"2"])
        log.create("u", 1)
        log.write("u", [b"new"])
        async with AsyncConsumer(ADDRESS, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe(["t"])
            assert await read(consumer, 2) == [b"1", b"2"]
            await consumer.subscribe(["t", "u"])
            log.write("t", [b"3"])
            assert sorted(await read(consumer, 2), key=str) == [b"3", b"new"]

    run(main())


def test_what_is_not_meant_any_more_is_not_handed_out(log: FakeLog) -> None:
    async def main() -> None:
        log.create("u", 1)
        log.write("u", [b"u"])
        async with AsyncConsumer(ADDRESS, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe(["t"])
            log.write("t", [b"here before it is given up"])
            await consumer.poll(0)
            await consumer.subscribe(["u"])
            assert await read(consumer, 1) == [b"u"]
            assert consumer.assignment() == {Partition("u", 0)}

    run(main())


def test_the_same_once_more_changes_nothing_but_the_listener(log: FakeLog) -> None:
    first, second = Heard(), Heard()

    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer:
            await consumer.subscribe(["t", "^t4"], first)
            await consumer.poll(1)
            await consumer.subscribe(["^t4", "t"], second)
            await consumer.poll(1)

    run(main())
    assert first.told == [("assigned", {"t", "t4"})]
    assert second.told == [("revoked", {"t", "t4"})]


@pytest.mark.parametrize(
    ("assignor", "told"),
    [
        ("cooperative-sticky", [("revoked", {"b"}), ("assigned", {"c"})]),
        ("range", [("revoked", {"a", "b"}), ("assigned", {"a", "c"})]),
    ],
)
def test_a_member_stays_one_and_cooperative_ones_keep_what_they_have(
    assignor: str, told: list[tuple[str, set[str]]]
) -> None:
    first, second = Heard(), Heard()

    async def main(address: str) -> None:
        async with (
            AsyncProducer(address) as producer,
            AsyncConsumer(
                address, group="g", assignors=[assignor], auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer,
        ):
            await consumer.subscribe(["a", "b"], first)
            for topic in "abc":
                await producer.send(topic, topic.encode())
            assert sorted(await read(consumer, 2), key=str) == [b"a", b"b"]
            await consumer.commit()
            before = consumer.group_metadata()
            await consumer.subscribe(["a", "c"], second)
            assert await read(consumer, 1) == [b"c"]
            assert consumer.group_metadata().member_id == before.member_id
            await producer.send("a", b"more")
            assert await read(consumer, 1) == [b"more"]

    with Broker() as broker:
        for topic in "abc":
            broker.create_topic(topic, partitions=1)
        asyncio.run(main(broker.url("kafka")))
    assert first.told == [("assigned", {"a", "b"})]
    assert second.told[:-1] == told


def test_a_subscription_that_is_changed_while_its_member_joins_is_what_is_read_in_the_end(log: FakeLog) -> None:
    async def main() -> None:
        log.create("u", 1)
        log.write("u", [b"u"])
        log.write("t", [b"t"])
        async with AsyncConsumer(ADDRESS, auto_offset_reset="earliest") as consumer:
            log.topics_delays_s.extend([5.0] * 3)
            await consumer.subscribe("^t$")
            await consumer.poll(0.1)
            assert consumer.assignment() == set()
            await consumer.subscribe(["u"])
            assert await read(consumer, 1) == [b"u"]
            assert consumer.assignment() == {Partition("u", 0)}

    run(main())
