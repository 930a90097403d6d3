"""Client-balanced groups at a real master: our members alone, two by their numbers, and one beside Java's."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock import Partition
from tests.interop.peers.tubemq_fixtures import NewTopic
from tests.interop.tubemq.test_groups_with_java import send
from tests.interop.tubemq.watched import ours
from tools.peers import tubemq, tubemq_clients

pytestmark = pytest.mark.interop


def test_two_of_our_nodes_share_by_their_numbers(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=4)
    sent = send(tubemq_peer, topic, 0, 40)
    both = {"client_balance": "true", "source_count": 2}
    with (
        ours(tubemq_peer.url, "pair", topic, **both, node_id=0) as one,
        ours(tubemq_peer.url, "pair", topic, **both, node_id=1) as other,
    ):
        one.wait_messages(20)
        other.wait_messages(20)
        assert len(one.wait_holding(2)) == len(other.wait_holding(2))
        assert not set(one.holding) & set(other.holding)
    assert Counter(one.bodies) + Counter(other.bodies) == Counter(sent)


def test_each_node_starts_at_the_offsets_it_is_given(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=2)
    send(tubemq_peer, topic, 0, 40)
    here, there = Partition(topic, 0, "1"), Partition(topic, 10_000, "1")
    balanced = {"client_balance": "true", "source_count": 2}
    with (
        ours(tubemq_peer.url, "booted", at={here: 28 * 5}, **balanced, node_id=0) as one,
        ours(tubemq_peer.url, "booted", at={there: 28 * 12}, **balanced, node_id=1) as other,
    ):
        one.wait_messages(15)
        other.wait_messages(8)
    assert [record.offset for record in one.records] == [28 * i for i in range(5, 20)]
    assert [record.offset for record in other.records] == [28 * i for i in range(12, 20)]


def test_we_and_java_are_two_nodes_of_one_group(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=2)
    sent = send(tubemq_peer, topic, 0, 40)
    mine = Partition(topic, 0, "1")
    balanced = {"client_balance": "true", "source_count": 2, "node_id": 0}
    with (
        ours(tubemq_peer.url, "mixed-nodes", at={mine: 0}, **balanced) as member,
        tubemq_clients.balance(
            tubemq_peer.address, "mixed-nodes", topic, count=2, node=1, offsets=f"1:{topic}:10000=0"
        ) as java,
    ):
        member.wait_messages(20)
        java.wait_messages(20)
    assert Counter(java.bodies) + Counter(member.bodies) == Counter(sent)
