"""One topic on our node, two protocols: foreign Kafka clients at one end, TubeMQ's Java client at the other."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer

from penstock.testing import Broker
from tools.peers import tubemq_clients
from tools.peers.tubemq_clients import Mail

pytestmark = pytest.mark.interop

WITHIN_S = 30.0


def kafka_read(bootstrap: str, topic: str, count: int) -> Iterator[Message]:
    """The first ``count`` records that a new Kafka group gets."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "kafka", "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    deadline = time.monotonic() + WITHIN_S
    try:
        while count:
            assert time.monotonic() < deadline, f"{count} records are missing"
            found = reader.poll(1.0)
            if found is not None:
                assert found.error() is None
                count -= 1
                yield found
    finally:
        reader.close()


def test_kafka_reads_what_java_sent_through_tubemq(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("crossed", partitions=2)
    sent = [Mail("crossed", b"%d" % i, "blue" if i % 2 else None, attributes={"seq": str(i)}) for i in range(20)]
    with tubemq_clients.producer(masters) as java:
        places = {mail.body: answer for mail, answer in zip(sent, java.send(sent), strict=True)}
    for found in kafka_read(tube_node.bootstrap, "crossed", 20):
        number = int(found.value())
        headers = dict(found.headers())
        assert headers.pop("seq") == b"%d" % number
        assert headers == ({"tubemq.filter": b"blue"} if number % 2 else {})
        assert found.key() is None
        answer = places[found.value()]
        assert answer["partition"] == f"1:crossed:{found.partition() * 10_000}"
        assert answer["offset"] == found.offset() * 28


def test_java_reads_through_tubemq_what_kafka_wrote(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("crossed", partitions=3)
    writer = Producer({"bootstrap.servers": tube_node.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    for i in range(30):
        headers = [("seq", b"%d" % i), ("tubemq.filter", b"red" if i % 2 else b"blue")]
        writer.produce("crossed", b"%d" % i, b"key %d" % (i % 5), headers=headers)
    assert writer.flush(WITHIN_S) == 0
    with tubemq_clients.pull(masters, "java", "crossed") as everything:
        everything.wait_messages(30)
    for line in everything.messages:
        number = int(line["body"])
        assert line["filter"] == ("red" if number % 2 else "blue")
        assert f"seq={number}" in line["attributes"].split(",")
    assert sorted(int(line["body"]) for line in everything.messages) == list(range(30))
    with tubemq_clients.balance(masters, "picky", "crossed@red") as reds:
        reds.wait_messages(15)
    assert sorted(int(line["body"]) for line in reds.messages) == list(range(1, 30, 2))


def test_a_record_that_went_through_both_is_what_it_was(tube_node: Broker, masters: str) -> None:
    from penstock import Producer as Ours

    del masters
    tube_node.create_topic("crossed")
    wanted = [
        (b"key", b"value", [("a", b"1"), ("a", None), ("", b"\x00,=")], 1_700_000_000_123),
        (None, b"\xff" * 70_000, [], 1_700_000_000_000),
        (b"", None, [("tubemq.filter", b"blue")], 1_700_000_060_000),
    ]
    with Ours(tube_node.url("tubemq")) as writer:
        for key, value, headers, timestamp_ms in wanted:
            writer.send("crossed", value, key, headers=headers, timestamp_ms=timestamp_ms)
    found = list(kafka_read(tube_node.bootstrap, "crossed", 3))
    assert [(each.key(), each.value(), each.headers() or [], each.timestamp()[1]) for each in found] == wanted


def test_both_kinds_of_producers_share_one_log(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("crossed")
    writer = Producer({"bootstrap.servers": tube_node.bootstrap})
    with tubemq_clients.producer(masters) as java, tubemq_clients.pull(masters, "java", "crossed") as reader:
        for i in range(0, 10, 2):
            writer.produce("crossed", b"%d" % i)
            assert writer.flush(WITHIN_S) == 0
            (answer,) = java.send([Mail("crossed", b"%d" % (i + 1))])
            assert answer["offset"] == 28 * (i + 1)
        reader.wait_messages(10)
    assert reader.bodies == [b"%d" % i for i in range(10)]
    assert [found.value() for found in kafka_read(tube_node.bootstrap, "crossed", 10)] == reader.bodies
