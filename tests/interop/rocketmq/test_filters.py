"""Filters by properties: what our node lets through is what real brokers do, and none of both takes nonsense."""

from __future__ import annotations

import pytest

from penstock import Consumer, EmptyReason, Producer
from penstock.errors import ServerError
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import NewRocketTopic
from tests.rocketmq_filters import BAD, CASES, MESSAGES, NEW_CASES
from tools.peers import rocketmq

pytestmark = pytest.mark.interop


def write(address: str, topic: str) -> None:
    """Each message has its number as its value."""
    with Producer(f"rocketmq://{address}") as producer:
        for number, each in enumerate(MESSAGES):
            headers = [(name, value.encode()) for name, value in each.items()]
            producer.send(topic, b"%d" % number, partition=0, headers=headers).result(30)


def read(address: str, topic: str, expression: str) -> set[int]:
    found: set[int] = set()
    with Consumer(f"rocketmq://{address}", sql=expression, fetch_max_wait_ms=50) as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_for(topic), 0))
        while consumer.empty_reason() is not EmptyReason.NOTHING_NEW:
            found |= {int(each.value or b"") for each in consumer.poll(0.1)}
    return found


def test_real_brokers_let_the_same_through(served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic) -> None:
    topic = rocketmq_topic(served_rocketmq, queues=1)
    write(served_rocketmq.address, topic)
    # Brokers put what they have acknowledged into a queue a moment later.
    comes_to(lambda: served_rocketmq.ends(topic), {("broker-1", 0): (0, len(MESSAGES))}, 60)
    cases = [*CASES, *(NEW_CASES if served_rocketmq.version.startswith("5.") else ())]
    found = {expression: read(served_rocketmq.address, topic, expression) for expression, _ in cases}
    assert found == dict(cases)
    for expression in filter(None, BAD):
        with pytest.raises(ServerError) as refused:
            read(served_rocketmq.address, topic, expression)
        assert refused.value.code == 23, expression


def test_and_so_does_our_node() -> None:
    with Broker(listen="rocketmq://127.0.0.1:0") as node:
        address = node.url("rocketmq").removeprefix("rocketmq://")
        node.create_topic("chosen", partitions=1)
        write(address, "chosen")
        for expression, wanted in [*CASES, *NEW_CASES]:
            assert read(address, "chosen", expression) == wanted, expression
        for expression in filter(None, BAD):
            with pytest.raises(ServerError, match="no SQL92 filter"):
                read(address, "chosen", expression)
