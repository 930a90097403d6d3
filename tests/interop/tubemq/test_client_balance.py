"""Client-balanced groups at a real master: our members alone, two by their numbers, and one beside Java's."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from penstock import Consumer, Partition
from penstock.protocols.tubemq.wire.strings import java_hash
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


def test_three_threads_of_ours_fetch_as_those_of_the_java_example_do(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic = tubemq_topic(stores=4)
    sent = send(tubemq_peer, topic, 0, 400)
    address = f"{tubemq_peer.url}/{topic}?client_balance=true&source_count=1&node_id=0&auto_offset_reset=earliest"
    found: list[list[bytes | None]] = [[], [], []]
    everything = threading.Event()

    def fetch(consumer: Consumer, into: list[bytes | None]) -> None:
        for batch in consumer:
            consumer.commit(batch)
            into += batch.value.to_pylist()
            if sum(map(len, found)) >= len(sent):
                everything.set()

    with Consumer(address, group="three-threads") as consumer:
        threads = [threading.Thread(target=fetch, args=(consumer, into)) for into in found]
        for thread in threads:
            thread.start()
        assert everything.wait(60)
    for thread in threads:
        thread.join(20)
    assert Counter(value for values in found for value in values) == Counter(sent)
    committed = tubemq_peer.wait_committed("three-threads", topic, 4)
    assert committed == {place: end for place, (_, end) in tubemq_peer.ends(topic).items()}


@pytest.mark.parametrize(("count", "topic"), [(3, "shared3"), (5, "mixed5"), (6, "mixed6")])
def test_a_group_that_we_share_with_java_reads_each_partition_once(
    tubemq_peer: tubemq.Cluster, count: int, topic: str
) -> None:
    # Java's members share out by the rule of TubeMQ's own example; every other member is ours. The topic's name is
    # such that some of its keys have negative hash codes, and some have not: only there can the two disagree.
    group = f"mixed{count}"
    tubemq_peer.create_topics(topic, partitions=2, stores=8)
    keys = [f"1:{topic}:{store * 10_000 + number}" for store in range(8) for number in range(2)]
    assert len({java_hash(key) >> 31 for key in keys}) == 2
    sent = send(tubemq_peer, topic, 0, 64)
    balanced = {"client_balance": "true", "source_count": count}
    with ExitStack() as group_lives:
        mine = [
            group_lives.enter_context(ours(tubemq_peer.url, group, topic, **balanced, node_id=node))
            for node in range(0, count, 2)
        ]
        theirs = [
            group_lives.enter_context(tubemq_clients.balance(tubemq_peer.address, group, topic, count=count, node=node))
            for node in range(1, count, 2)
        ]
        members = [*mine, *theirs]
        mine[0].wait(lambda _: sum(len(each.holding) for each in members) >= 16)
        holding = Counter(key for member in members for key in member.holding)
        mine[0].wait(lambda _: sum(len(each.bodies) for each in members) >= 64)
        bodies = Counter(body for member in members for body in member.bodies)
    assert holding == Counter(keys)
    assert bodies == Counter(sent)
