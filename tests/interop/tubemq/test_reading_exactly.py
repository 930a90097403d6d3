"""Exact ranges and committed offsets of a real broker: nothing twice, nothing missing, nothing else."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest

from penstock import Admin, Consumer, LogRange, Partition, Producer, RangeReader
from penstock.errors import OffsetOutOfRange, ServerError, UsageError
from penstock.interfaces import NewTopic as TopicToCreate
from penstock.model import Committed
from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tools.peers import tubemq, tubemq_clients

pytestmark = pytest.mark.interop


def values(reader: RangeReader, wanted: LogRange) -> list[bytes | None]:
    return [value for batch in reader.read(wanted) for value in batch.value.to_pylist()]


def filled(cluster: tubemq.Cluster, topic: str, count: int) -> dict[int, list[bytes]]:
    """``count`` records round robin; what each partition got, in order."""
    with Producer(cluster.url) as producer:
        partitions = producer.partitions_for(topic)
        sent: dict[int, list[bytes]] = {partition.id: [] for partition in partitions}
        for number in range(count):
            index = number % len(partitions)
            sent[partitions[index].id].append(b"%d" % number)
            producer.send(topic, b"%d" % number, partition=index)
        producer.flush()
    return sent


@pytest.mark.parametrize(("partitions", "stores"), [(1, 1), (3, 1), (2, 2)])
def test_ranges_laid_end_to_end_give_every_record_once(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic, partitions: int, stores: int
) -> None:
    topic = tubemq_topic(partitions=partitions, stores=stores)
    sent = filled(tubemq_peer, topic, 12_000)
    dice = random.Random(1)
    with RangeReader(tubemq_peer.url) as reader:
        placed = [info.partition for info in reader.topics([topic])[topic].partitions]
        assert {partition.id for partition in placed} == set(sent)
        ends = reader.end_offsets(placed)
        for partition in placed:
            end = ends[partition]
            cuts = sorted([0, end, *(dice.randrange(end) for _ in range(4))])
            found = [
                value
                for start, stop in pairwise(cuts)
                for value in values(reader, LogRange(topic, partition.id, start, stop, partition.node))
            ]
            whole = values(reader, LogRange(topic, partition.id, 0, end, partition.node))
            assert found == whole
            # Messages in flight together: one that a busy broker refuses is sent again, and stands behind later ones.
            assert sorted(found) == sorted(sent[partition.id])


def test_a_range_with_filter_items_has_only_theirs(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    with Producer(tubemq_peer.url) as producer:
        for number in range(300):
            headers = {"tubemq.filter": b"red" if number % 3 else b"blue"}
            producer.send(topic, b"%d" % number, headers=headers)
    with RangeReader(tubemq_peer.url, filters="blue") as reader:
        assert values(reader, LogRange(topic, 0, 0, 28 * 300)) == [b"%d" % n for n in range(0, 300, 3)]
        assert values(reader, LogRange(topic, 0, 28 * 100, 28 * 200)) == [b"%d" % n for n in range(102, 200, 3)]


def test_a_range_beyond_the_log_is_an_error(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    filled(tubemq_peer, topic, 5)
    with RangeReader(tubemq_peer.url) as reader:
        with pytest.raises(OffsetOutOfRange, match="ends at 140"):
            values(reader, LogRange(topic, 0, 0, 168))
        with pytest.raises(OffsetOutOfRange):
            values(reader, LogRange(topic, 0, 1_400, 2_800))
        assert len(values(reader, LogRange(topic, 0, 0, 140))) == 5


def test_many_readers_of_one_partition_do_not_disturb_each_other(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic = tubemq_topic()
    sent = filled(tubemq_peer, topic, 2_000)[0]
    readers = [RangeReader(tubemq_peer.url) for _ in range(8)]
    try:
        wanted = [reader.read(LogRange(topic, 0, 28 * 200 * n, 28 * 200 * (n + 2))) for n, reader in enumerate(readers)]
        found: list[list[bytes]] = [[] for _ in readers]
        open_ones = set(range(len(readers)))
        while open_ones:
            for number in list(open_ones):
                batch = next(wanted[number], None)
                if batch is None:
                    open_ones.discard(number)
                else:
                    found[number] += batch.value.to_pylist()
        assert found == [sent[200 * n : 200 * (n + 2)] for n in range(len(readers))]
    finally:
        for reader in readers:
            reader.close()


def test_a_group_is_moved_from_outside_and_java_goes_on_there(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic = tubemq_topic()
    filled(tubemq_peer, topic, 20)
    partition = Partition(topic, 0, "1")
    with Admin(tubemq_peer.url) as admin:
        admin.commit("moved", {partition: 28 * 15})
        assert admin.committed("moved", [partition])[partition].offset == 28 * 15
        with tubemq_clients.pull(tubemq_peer.address, "moved", topic) as java:
            java.wait_messages(5)
            assert java.bodies == [b"%d" % n for n in range(15, 20)]
            with pytest.raises(ServerError) as caught:
                admin.commit("moved", {partition: 0})
            assert caught.value.code == 410
        with pytest.raises(OffsetOutOfRange):
            admin.commit("moved", {partition: 10_000})


def test_where_a_group_stands_is_known_the_moment_it_has_committed(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    # A broker lists a group some seconds after it came to be: these three are younger.
    topic = tubemq_topic()
    filled(tubemq_peer, topic, 20)
    partition = Partition(topic, 0, "1")
    web = f"{tubemq_peer.master.host}:{tubemq_peer.master.web_port}"
    with Admin(tubemq_peer.url, admin_address=web) as admin:
        assert admin.committed("unheard", [partition]) == {}
        admin.commit("moved-now", {partition: 28 * 15})
        assert admin.committed("moved-now", [partition]) == {partition: Committed(28 * 15)}
        with Consumer(tubemq_peer.url, group="read-now", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(topic)
            batch = consumer.poll(30)
            consumer.commit(batch)
            assert admin.committed("read-now", [partition]) == {partition: Committed(28 * len(batch))}
        admin.commit("listed-soon", {partition: 28 * 7})
        assert admin.committed("listed-soon", None) == {partition: Committed(28 * 7)}


def test_a_consumer_without_a_group_reads_all_and_follows(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(partitions=3)
    sent = filled(tubemq_peer, topic, 3_000)
    found: list[bytes] = []
    with Consumer(f"{tubemq_peer.url}/{topic}") as consumer:
        while len(found) < 3_000 and (messages := consumer.poll(timeout_s=10)):
            found += messages.value.to_pylist()
        assert sorted(found) == sorted(value for each in sent.values() for value in each)
        with Producer(tubemq_peer.url) as producer:
            producer.send(topic, b"one more").result(10)
        assert [record.value for record in consumer.poll(timeout_s=10)] == [b"one more"]


def test_times_cannot_be_asked_for(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    with RangeReader(tubemq_peer.url) as reader, pytest.raises(UsageError, match="by time"):
        reader.offsets_for_times({Partition(topic, 0, "1"): 0})


def test_an_operator_creates_grows_describes_and_deletes(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    web = f"{own.url}?admin_address=127.0.0.1:{own.master.web_port}&admin_token={tubemq.TOKEN}"
    with Admin(web) as admin:
        admin.create_topics([TopicToCreate("made", 3, config={"deletePolicy": "delete,24h"})])
        assert len(admin.topics(["made"])["made"].partitions) == 3
        assert admin.topic_config("made")["deletePolicy"] == "delete,24h"
        admin.add_partitions("made", 4)
        with pytest.raises(ServerError, match="Existed"):
            admin.create_topics([TopicToCreate("made", 3)])
        filled(own, "made", 8)
        admin.commit("watched", {Partition("made", 0, "1"): 28})
        assert admin.describe_group("nobody").state == "Dead"
        with tubemq_clients.pull(own.address, "watched", "made") as java:
            java.wait_holding(4)
            assert [(group.group, group.state) for group in admin.groups()] == [("watched", "Stable")]
            # The master is told by the heartbeat after the next one what a member really holds.
            held = frozenset(Partition("made", number, "1") for number in range(4))
            deadline = time.monotonic() + 30
            while [member.partitions for member in admin.describe_group("watched").members] != [held]:
                assert time.monotonic() < deadline
        admin.delete_topics(["made"])
        assert "made" not in admin.topics()
