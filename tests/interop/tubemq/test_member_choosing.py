"""Beginnings that members choose, and what operators ask of them, at a real TubeMQ."""

from __future__ import annotations

import time

import pytest

from penstock.client import Consumer
from penstock.config import OptionValue
from penstock.errors import ServerError
from penstock.model import Partition
from tests.interop.peers.tubemq_fixtures import NewTopic
from tests.interop.tubemq.members import PATIENCE_MS, Member, fresh, read, send, until
from tools.peers import tubemq

pytestmark = pytest.mark.interop


def test_a_bound_group_begins_when_it_is_complete_and_where_it_says(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic, group, masters = tubemq_topic(stores=2), fresh("bound"), tubemq_peer.address
    send(masters, topic, 20)
    bound: dict[str, OptionValue] = {"bound_consume": True, "session_key": "today", "source_count": 2}
    first_wants, second_wants = f"1:{topic}:0=56", f"1:{topic}:0=84,1:{topic}:10000=140"
    with Member(masters, group, [topic], start_offsets=first_wants, **bound) as first:
        for _ in range(15):
            first.step()
        assert not first.holds
        with Member(masters, group, [topic], start_offsets=second_wants, **bound) as second:
            until([first, second], lambda: sum((first.got + second.got).values()) >= 12)
            assert second.holds == {f"1:{topic}:0", f"1:{topic}:10000"}  # the larger offset wins
            for _ in range(5):
                second.step()
    assert sum((first.got + second.got).values()) == 7 + 5


def test_a_session_key_that_differs_is_refused(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, group = tubemq_topic(), fresh("bound")
    bound: dict[str, OptionValue] = {"bound_consume": True, "source_count": 2, "register_retries": 1}
    address = f"tubemq://{tubemq_peer.address}/{topic}"
    with (
        Consumer(address, group=group, session_key="today", **bound) as first,
        Consumer(address, group=group, session_key="tomorrow", **bound) as second,
    ):
        first.poll(1)
        with pytest.raises(ServerError) as refused:
            second.poll(5)
    assert refused.value.code == 427


def test_a_partition_goes_from_one_application_to_the_next(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, group, address = tubemq_topic(), fresh("hands"), f"tubemq://{tubemq_peer.address}"
    send(tubemq_peer.address, topic, 10)
    only = Partition(topic, 0, "1")
    with (
        Consumer(address, group=group, **PATIENCE_MS) as first,
        Consumer(address, group=group, **PATIENCE_MS) as second,
    ):
        assert first.partitions_for(topic) == (only,)
        first.assign({only: 28 * 4})
        assert [record.value for record in read(first, 6)] == [b"%d" % number for number in range(4, 10)]
        second.assign([only])
        with pytest.raises(ServerError) as refused:
            second.poll(10)
        assert (refused.value.code, refused.value.partition) == (410, 0)
        first.assign([])
        send(tubemq_peer.address, topic, 1, 10)
        assert [record.value for record in second.poll(20)] == [b"10"]


def test_an_operator_sends_a_group_to_the_end(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, group, masters = tubemq_topic(), fresh("jumps"), tubemq_peer.address
    send(masters, topic, 10)
    only = Partition(topic, 0, "1")
    with Consumer(f"tubemq://{masters}", group=group, **PATIENCE_MS) as consumer:
        consumer.assign([only])
        assert consumer.position(only) == 0
        consumer.pause([only])
        tubemq_peer.admin("admin_set_client_balance_group_consume_from_max", groupName=group)
        deadline = time.monotonic() + 20
        while consumer.position(only) != 280 and time.monotonic() < deadline:
            consumer.poll(0.2)
            consumer.resume([only])
        sent = send(masters, topic, 3, 10)
        found = [record.value for record in read(consumer, 3)]
    assert found == sent
