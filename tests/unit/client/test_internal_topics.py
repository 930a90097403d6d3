"""A log's own topics are shown to who asks for them, by their names or by ``internal``, and to nobody else."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client import Admin, AsyncAdmin, Consumer, Producer, RangeReader
from penstock.interfaces import NewTopic
from penstock.testing import Broker

OWN = "__consumer_offsets"


@pytest.fixture
def address(broker: Broker) -> str:
    broker.create_topic("t")
    with Producer(broker.address) as producer:
        producer.send("t", b"a")
    with Consumer(f"{broker.address}/t", group="g") as consumer:
        consumer.commit(consumer.poll(20))
    return broker.address


def test_internal_topics_are_shown_on_request_only(address: str) -> None:
    with Admin(address) as admin, RangeReader(address) as reader:
        for each in (admin, reader):
            assert set(each.topics()) == {"t"}
            assert set(each.topics(internal=True)) == {"t", OWN}
            assert each.topics([OWN])[OWN].internal

    async def main() -> None:
        async with AsyncAdmin(address) as admin:
            assert set(await admin.topics()) == {"t"}
            assert set(await admin.topics(internal=True)) == {"t", OWN}
            assert set(await admin.topics([OWN, "none"])) == {OWN}

    asyncio.run(main())


def test_a_name_stands_for_a_topic_with_the_servers_defaults(broker: Broker) -> None:
    with Admin(broker.address) as admin:
        admin.create_topics(["plain", NewTopic("wide", partitions=3)])
        assert {name: len(found.partitions) for name, found in admin.topics().items()} == {"plain": 1, "wide": 3}
