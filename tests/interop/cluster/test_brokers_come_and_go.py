"""Three real brokers, of which one dies, falls silent, or moves: what clients notice, which is a pause and no more."""

from __future__ import annotations

import uuid

import pytest

from penstock.client import Consumer, RangeReader
from penstock.model import Partition
from tests.interop.cluster import movers
from tests.interop.cluster.traffic import check_all_there, stored, writing
from tools.peers.kafka_cluster import BROKERS, Cluster

pytestmark = pytest.mark.interop


def test_what_is_acknowledged_while_the_leader_dies_is_there_once(kafka_cluster: Cluster) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, 3)
    with writing(kafka_cluster, topic, acks="all") as written:
        written.await_more(200)
        kafka_cluster.kill(1)
        written.await_more(400)  # of which a third waits for another leader
        kafka_cluster.start(1)
        written.await_more(200)
    check_all_there(written.acknowledged, stored(kafka_cluster, topic, 3))
    kafka_cluster.await_in_sync(topic)


def test_a_group_shared_with_librdkafka_outlasts_a_frozen_broker(kafka_cluster: Cluster) -> None:
    from confluent_kafka import Consumer as Foreign

    topic = group = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, 4)
    config = {"bootstrap.servers": kafka_cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    other = Foreign({**config, "partition.assignment.strategy": "range", "enable.auto.commit": False})
    other.subscribe([topic])
    seen: set[bytes] = set()

    def poll_both(ours: Consumer) -> None:
        seen.update(each.value or b"" for each in ours.poll(timeout_s=0.1))
        seen.update(message.value() for message in other.consume(500, 0.1) if message.error() is None)

    try:
        with Consumer(f"{kafka_cluster.address}/{topic}", group=group, auto_offset_reset="earliest") as ours:
            while not (len(ours.assignment()) == len(other.assignment()) == 2):
                poll_both(ours)
            with writing(kafka_cluster, topic, acks="all") as written:
                written.await_more(100)
                kafka_cluster.freeze(2)
                kafka_cluster.await_in_sync(topic, 0, (1, 3))
                written.await_more(200)
                kafka_cluster.thaw(2)
            for _ in range(300):
                poll_both(ours)
                if len(seen) == len(written.acknowledged):
                    break
        assert seen == {b"%d" % number for number in written.acknowledged}
    finally:
        other.close()
    kafka_cluster.await_in_sync(topic)


def test_what_is_moved_in_transactions_while_a_leader_dies_arrives_once(kafka_cluster: Cluster) -> None:
    source = f"t-{uuid.uuid4().hex[:8]}"
    target = f"{source}-moved"
    for topic in (source, target):
        kafka_cluster.create_topic(topic, 3)
    with movers.moving(kafka_cluster, source, target, movers.ours, movers.librdkafka) as moves:
        with writing(kafka_cluster, source, acks="all") as written:
            written.await_more(100)
            kafka_cluster.kill(2)
            written.await_more(300)
            kafka_cluster.start(2)
        movers.arrive(kafka_cluster, target, 3, list(written.acknowledged), moves)
    for topic in (source, target):
        kafka_cluster.await_in_sync(topic)


def test_a_broker_that_comes_back_under_another_port_is_found(kafka_cluster: Cluster) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, len(BROKERS), [(broker,) for broker in BROKERS])  # nobody stands in for anybody
    with RangeReader(kafka_cluster.address) as reader, writing(kafka_cluster, topic) as written:
        reader.end_offsets([Partition(topic, number) for number in range(len(BROKERS))])
        written.await_more(100)
        kafka_cluster.replace(3)
        written.await_more(200)
        ends = reader.end_offsets([Partition(topic, number) for number in range(len(BROKERS))])
    assert all(ends.values())
    check_all_there(written.acknowledged, stored(kafka_cluster, topic, len(BROKERS)))
