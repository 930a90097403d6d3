"""Brokers that die under a producer of ours: what need not go to them goes to the others."""

from __future__ import annotations

import pytest

from penstock import LogRange, Producer, RangeReader
from penstock.client.errors import DeliveryTimeout
from penstock.errors import RequestTimeout, ServerError
from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tools.peers import tubemq

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def test_records_without_a_partition_go_to_the_broker_that_is_left(tubemq_own: NewCluster) -> None:
    own = tubemq_own(brokers=2)
    own.create_topics("flow", stores=2)
    with Producer(own.url, delivery_timeout_ms=20_000, request_timeout_ms=5_000) as producer:
        places = producer.partitions_for("flow")
        dead = next(place for place, partition in enumerate(places) if partition.node == "2")
        producer.send("flow", b"while both are there", partition=dead).result(10)
        own.brokers[1].kill()
        there = producer.send("flow", b"to the dead one", partition=dead)
        with pytest.raises(RequestTimeout):
            there.result(2)
        stored = [producer.send("flow", b"%d" % number).result(10) for number in range(50)]
        assert {(where.partition, where.offset) for where in stored} <= {(0, 28 * n) for n in range(50)} | {
            (10_000, 28 * n) for n in range(50)
        }
        with pytest.raises(DeliveryTimeout):
            there.result(30)


def test_answers_say_where_each_record_is(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(partitions=2)
    with Producer(tubemq_peer.url) as producer:
        sent = [producer.send(topic, b"%d" % number) for number in range(50)]
        stored = [delivery.result(30) for delivery in sent]
    with RangeReader(tubemq_peer.url) as reader:
        for number, where in enumerate(stored):
            wanted = LogRange(topic, where.partition, where.offset, where.offset + 1, "1")
            (found,) = [value for batch in reader.read(wanted) for value in batch.value.to_pylist()]
            assert found == b"%d" % number


def test_a_message_over_the_topic_s_limit_is_refused_alone(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    with Producer(tubemq_peer.url, max_request_bytes=8 * 1024 * 1024) as producer:
        sent = [producer.send(topic, b"x" * size) for size in (10, 1024 * 1024 + 100, 20)]
        assert [sent[0].result(30).offset, sent[2].result(30).offset] == [0, 28]
        with pytest.raises(ServerError) as caught:
            sent[1].result(30)
        assert caught.value.code == 445
