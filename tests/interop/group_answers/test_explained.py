"""Rebalances explained: what Java's members say of themselves, and a real broker that remembers nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client import Admin, Producer
from penstock.interfaces.admin import RebalanceCause, RebalanceEnding
from penstock.testing import Broker
from tools.peers import kafka

pytestmark = pytest.mark.interop


def test_a_real_broker_keeps_no_account(any_kafka: kafka.Broker) -> None:
    with Admin(f"kafka://{any_kafka.bootstrap}") as admin:
        assert admin.rebalances("anybody") is None


@pytest.mark.long
def test_a_java_member_is_quoted(broker: Broker, kafka_tools: Callable[..., str]) -> None:
    broker.create_topic("t", partitions=2)
    with Producer(broker.address) as producer:
        producer.send("t", b"1")
    arguments = ("--topic", "t", "--from-beginning", "--group", "g", "--max-messages", "1")
    kafka_tools("console-consumer", *arguments, bootstrap=broker.bootstrap)
    with Admin(broker.address) as admin:
        joined, left = admin.rebalances("g") or ()
    assert [reason.why for reason in joined.reasons] == [RebalanceCause.JOINED]
    assert [move.gained_total for move in joined.moved] == [2]
    assert (left.ending, [reason.why for reason in left.reasons]) == (RebalanceEnding.DESERTED, [RebalanceCause.LEFT])
    assert "consumer is being closed" in left.reasons[0].said
