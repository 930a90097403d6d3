"""A real broker between us and TubeMQ's own Java client: what one writes, the other reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock import Consumer, LogRange, Producer, RangeReader, Record
from penstock.model import Offset, OffsetSpec
from tests.interop.peers.tubemq_fixtures import NewTopic
from tests.interop.tubemq.members import read
from tools.peers import tubemq, tubemq_clients
from tools.peers.tubemq_clients import Mail

pytestmark = pytest.mark.interop

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1_000)


def stored(address: str, topic: str) -> list[Record]:
    """Everything in the topic, partition after partition."""
    with RangeReader(f"tubemq://{address}") as reader:
        partitions = [info.partition for info in reader.topics([topic])[topic].partitions]
        ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
        ranges = [LogRange(each.topic, each.id, 0, ends[each].offset, each.node) for each in partitions]
        return [record for each in ranges for batch in reader.read(each) for record in batch]


def test_java_reads_our_values_attributes_and_filter_items(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    with Producer(tubemq_peer.url) as producer:
        producer.send(topic, b"plain")
        producer.send(topic, b"with attributes", headers={"seq": b"1", "word": "café".encode()})
        filtered = {"tubemq.filter": b"blue", "seq": b"2"}
        producer.send(topic, b"filtered", headers=filtered, timestamp_ms=NOON_MS)
    with tubemq_clients.pull(tubemq_peer.address, "java", topic) as java:
        plain, attributed, blue = java.wait_messages(3)
    assert [line["body"] for line in (plain, attributed, blue)] == [b"plain", b"with attributes", b"filtered"]
    assert {"seq=1", "word=café"} <= set(attributed["attributes"].split(","))
    assert (blue["filter"], blue["time"]) == ("blue", "202611211200")
    assert "seq=2" in blue["attributes"].split(",")


def test_a_filtering_java_consumer_finds_our_messages(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(memCacheFlushIntvl=4_000, unflushInterval=1_000)
    with Producer(tubemq_peer.url) as producer:
        for i in range(12):
            producer.send(topic, b"%d" % i, headers={"tubemq.filter": b"red" if i % 3 else b"blue"})
    with tubemq_clients.pull(tubemq_peer.address, "picky", f"{topic}@blue") as java:
        java.wait_messages(4, timeout_s=80)
    assert java.bodies == [b"0", b"3", b"6", b"9"]


def test_we_read_java_s_bodies_attributes_and_filter_items(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    sent = [
        Mail(topic, b"plain"),
        Mail(topic, b"with attributes", attributes={"seq": "1", "word": "café"}),
        Mail(topic, b"filtered", "blue", attributes={"seq": "2"}),
        Mail(topic, b"\x00\xff" * 9_000),
    ]
    with tubemq_clients.producer(tubemq_peer.address) as java:
        java.send(sent)
    plain, attributed, blue, large = stored(tubemq_peer.address, topic)
    assert [record.value for record in (plain, attributed, blue, large)] == [mail.body for mail in sent]
    assert [record.offset for record in (plain, attributed, blue, large)] == [0, 28, 56, 84]
    assert plain.headers == ()
    assert sorted(attributed.headers) == [("seq", b"1"), ("word", "café".encode())]
    assert sorted(blue.headers) == [("seq", b"2"), ("tubemq.filter", b"blue")]
    assert blue.timestamp_ms == NOON_MS
    assert {record.key for record in (plain, attributed, blue, large)} == {None}


def test_we_read_back_what_we_wrote(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    wanted = [
        (b"key", b"value", (("a", b"1"), ("a", b"2"), ("", None)), NOON_MS + 1_234),
        (None, None, (), NOON_MS),
        (b"", b"", (("odd,=$", b"\x00\xff"),), NOON_MS),
    ]
    with Producer(tubemq_peer.url) as producer:
        for key, value, headers, timestamp_ms in wanted:
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp_ms)
    found = stored(tubemq_peer.address, topic)
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == wanted


def test_we_receive_only_what_our_filter_asks_for(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(partitions=2)
    sent = [Mail(topic, b"%d" % i, ("blue", "red", None)[i % 3]) for i in range(30)]
    with tubemq_clients.producer(tubemq_peer.address) as java:
        java.send(sent)
    # 303: from memory, too; else a filtering consumer sees only what has been flushed to disk.
    options = {"filters": f"{topic}@red", "query_priority": 303, "auto_offset_reset": "earliest"}
    with Consumer(f"{tubemq_peer.url}/{topic}", group="ours-picky", heartbeat_interval_ms=1_000, **options) as consumer:
        found = read(consumer, 10)
    assert sorted(int(record.value or b"") for record in found) == list(range(1, 30, 3))


@pytest.mark.parametrize("stores", [1, 3])
def test_acknowledgements_name_the_offset_that_readers_find(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic, stores: int
) -> None:
    topic = tubemq_topic(stores=stores)
    with Producer(tubemq_peer.url) as producer:
        deliveries = {b"%d" % i: producer.send(topic, b"%d" % i) for i in range(40)}
        producer.flush()
        told = {body: (each.result().partition, each.result().offset) for body, each in deliveries.items()}
    found = {record.value: (record.partition, record.offset) for record in stored(tubemq_peer.address, topic)}
    assert told == found
