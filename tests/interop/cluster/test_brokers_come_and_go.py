"""Three real brokers, of which one dies, falls silent, or moves: what clients notice, which is a pause and no more."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from typing import Any

import pytest

from penstock.client import Consumer, Producer, RangeReader
from penstock.model import LogRange, Node, Partition
from penstock.protocols.kafka.client.client import KafkaClient
from penstock.protocols.kafka.client.cluster import Cluster as Metadata
from tests.interop.cluster import movers
from tests.interop.cluster.traffic import check_all_there, stored, writing
from tools.peers.kafka_cluster import BROKERS, Cluster, rack

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


def test_a_leader_that_moves_while_all_live_is_followed_by_its_name_alone(
    kafka_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, replicas=[[1, 2, 3]])
    heard: list[tuple[str, bool]] = []
    named, refresh = Metadata.named, Metadata._refresh

    def noting(self: Metadata, partition: Partition, by: Node, *told: Any) -> bool:
        heard.append((by.name, named(self, partition, by, *told)))
        return heard[-1][1]

    async def asking(self: Metadata, names: Collection[str] | None) -> None:
        heard.append(("metadata", False))
        await refresh(self, names)

    with (
        Producer(kafka_cluster.address) as producer,
        Consumer(kafka_cluster.address) as consumer,
        RangeReader(kafka_cluster.address) as reader,
    ):
        consumer.assign({Partition(topic, 0): 0})
        for leader in (1, 2, 3):
            if leader > 1:
                kafka_cluster.reassign(topic, {0: [leader, *sorted({1, 2, 3} - {leader})]})
            if leader == 2:
                monkeypatch.setattr(Metadata, "named", noting)
                monkeypatch.setattr(Metadata, "_refresh", asking)
            assert producer.send(topic, b"%d" % leader).result(30).offset == leader - 1
            while consumer.position(Partition(topic, 0)) < leader:
                consumer.poll(5)
            read = reader.read(LogRange(topic, 0, 0, leader))
            assert [each.value for batch in read for each in batch] == [b"%d" % each for each in range(1, leader + 1)]
    assert {by for by, believed in heard if believed} == {"1", "2"}
    assert [by for by, _ in heard if by == "metadata"] == []


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


class RackReader:
    """Reads values 0, 1, 2, … of a topic in small pieces, from the replica at broker 2; broker 1 leads."""

    def __init__(self, cluster: Cluster, reader: Consumer, count: int) -> None:
        self.reader = reader
        self.partition = Partition(f"t-{uuid.uuid4().hex[:8]}", 0)
        self.values = [b"%d" % number * 100 for number in range(count)]
        cluster.create_topic(self.partition.topic, 1, [(1, 2)])
        with Producer(cluster.address) as producer:
            for value in self.values:
                producer.send(self.partition.topic, value)
        reader.assign({self.partition: 0})
        self.read(count)  # a follower knows what is committed a little later than its leader
        reader.seek(self.partition, 0)

    def read(self, to: int) -> None:
        while (at := self.reader.position(self.partition)) < to:
            found = [each.value for each in self.reader.poll(30, max_records=100)]
            assert found == self.values[at : at + len(found)]
            assert found, f"nothing came at {at}"

    @property
    def reads_at(self) -> str | None:
        engine = self.reader._inner._engine
        assert engine is not None
        assert isinstance(engine.client, KafkaClient)
        node = engine.client.reads_at(self.partition)
        return None if node is None else node.name


_SMALL = {
    "client_rack": rack(2),
    "request_timeout_ms": 1_000,
    "max_partition_fetch_bytes": 20_000,
    "fetch_buffer_bytes": 20_000,
}


def test_a_follower_in_the_readers_rack_is_read_from_while_its_leader_answers_nobody(kafka_cluster: Cluster) -> None:
    with Consumer(kafka_cluster.address, **_SMALL) as consumer:
        reader = RackReader(kafka_cluster, consumer, 2_000)
        reader.read(300)  # what was fetched ahead is no more than that
        assert reader.reads_at == "2"
        kafka_cluster.freeze(1)
        try:
            reader.read(2_000)
        finally:
            kafka_cluster.thaw(1)
    kafka_cluster.await_in_sync(reader.partition.topic)


@pytest.mark.long
def test_a_follower_that_is_frozen_or_killed_sends_its_readers_back_to_the_leader(kafka_cluster: Cluster) -> None:
    with Consumer(kafka_cluster.address, **_SMALL) as consumer:
        reader = RackReader(kafka_cluster, consumer, 4_000)
        reader.read(300)
        kafka_cluster.freeze(2)
        try:
            reader.read(2_000)
            assert reader.reads_at == "1"
        finally:
            kafka_cluster.thaw(2)
        kafka_cluster.await_in_sync(reader.partition.topic)
        deadline = time.monotonic() + 30
        while reader.reads_at != "2":
            assert time.monotonic() < deadline
            consumer.seek(reader.partition, 2_000)
            reader.read(2_500)
        kafka_cluster.kill(2)
        reader.read(4_000)
        assert reader.reads_at == "1"
        kafka_cluster.start(2)
    kafka_cluster.await_in_sync(reader.partition.topic)


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
