"""A Snode before a real TubeMQ cluster: Kafka's clients and TubeMQ's own on the same topics."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Broker
from tests.interop.peers.tubemq_fixtures import NewTopic as NewTube
from tools.peers import kafka, tubemq, tubemq_clients
from tools.peers.tubemq_clients import Mail

pytestmark = pytest.mark.interop
WITHIN_S = 60.0
Tools = Callable[..., str]


@contextmanager
def snode_before(cluster: tubemq.Cluster, **options: object) -> Iterator[Broker]:
    """With the masters' web API, and journals of its own."""
    web = f"{cluster.master.host}:{cluster.master.web_port}"
    listen = ["kafka://127.0.0.1:0", "rocketmq://127.0.0.1:0"]
    given = {"journals": "memory:", "offsets_partitions": 2, "listen": listen, **options}
    url = f"{cluster.url}?admin_address={web}&admin_token={tubemq.TOKEN}"
    with Broker(url, **given) as node:  # type: ignore[arg-type]
        yield node


@pytest.fixture(scope="module")
def snode(tubemq_peer: tubemq.Cluster) -> Iterator[Broker]:
    with snode_before(tubemq_peer) as node:
        yield node


def write(bootstrap: str, topic: str, numbers: range, partitions: int) -> None:
    """Each number to partition number % partitions, all of them acknowledged."""
    told: list[KafkaError | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in numbers:
        producer.produce(
            topic, b"%d" % number, b"k", partition=number % partitions, on_delivery=lambda e, _: told.append(e)
        )
        producer.poll(0)
    producer.flush(WITHIN_S)
    assert told == [None] * len(numbers)


Rows = dict[int, list[tuple[int, int]]]


def read(bootstrap: str, topic: str, count: int, group: str = "kafka", *, at: Mapping[int, int] | None = None) -> Rows:
    """(offset, number) by partition, of so many records; committed as it reads, or without a group from ``at`` on."""
    given = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": at is None,
    }
    reader = confluent_kafka.Consumer(given)
    if at is None:
        reader.subscribe([topic])
    else:
        reader.assign([TopicPartition(topic, number, offset) for number, offset in at.items()])
    found: Rows = defaultdict(list)
    deadline = time.monotonic() + WITHIN_S
    try:
        while count > 0:
            assert time.monotonic() < deadline, f"{count} records are missing"
            for message in reader.consume(500, 0.2):
                if at is not None and message.error() is not None:
                    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                    continue  # librdkafka asks for a group's coordinator also where it needs none
                assert message.error() is None
                found[message.partition() or 0].append((message.offset() or 0, int(message.value() or b"")))
                count -= 1
    finally:
        reader.close()
    return found


def numbers(rows: Rows) -> list[int]:
    return sorted(number for of in rows.values() for _, number in of)


def test_kafka_and_java_tubemq_read_what_the_other_wrote(
    snode: Broker, tubemq_peer: tubemq.Cluster, tubemq_topic: NewTube
) -> None:
    topic = tubemq_topic(partitions=5, stores=2)
    with (
        tubemq_clients.producer(tubemq_peer.address) as java,
        tubemq_clients.pull(tubemq_peer.address, "java-beside", topic) as reader,
    ):
        reader.wait_holding(10)
        java.send([Mail(topic, b"%d" % number, attributes={"seq": str(number)}) for number in range(50)])
        write(snode.bootstrap, topic, range(50, 100), partitions=10)
        reader.wait_messages(100)
    assert sorted(map(int, reader.bodies)) == list(range(100))
    assert numbers(read(snode.bootstrap, topic, 100)) == list(range(100))


def test_offsets_are_the_same_at_every_reader_and_reading_goes_on_exactly_there(
    snode: Broker, tubemq_peer: tubemq.Cluster, tubemq_topic: NewTube
) -> None:
    # More than two windows of one store that five partitions share: no answer of its broker says where a message is.
    topic = tubemq_topic(partitions=5)
    write(snode.bootstrap, topic, range(10_000), partitions=5)
    first = read(snode.bootstrap, topic, 10_000, "one")
    assert {number: [each for _, each in rows] for number, rows in first.items()} == {
        number: list(range(number, 10_000, 5)) for number in range(5)
    }
    assert all(one < two for rows in first.values() for (one, _), (two, _) in pairwise(rows))
    with snode_before(tubemq_peer, node_id=2) as other:
        assert read(other.bootstrap, topic, 10_000, "two") == first
        for place in (1, 819, 820, 1_203, 1_999):
            rows = first[3][place:]
            assert read(other.bootstrap, topic, len(rows), at={3: rows[0][0]})[3] == rows


@pytest.mark.long
@pytest.mark.parametrize("version", kafka.VERSIONS)
def test_javas_kafka_tools_write_read_and_go_on(
    snode: Broker, tubemq_topic: NewTube, kafka_tools: Tools, version: str
) -> None:
    topic, at = tubemq_topic(partitions=2, stores=2), {"bootstrap": snode.bootstrap, "version": version}
    plain = ["--producer-property" if version.startswith("3.") else "--command-property", "enable.idempotence=false"]
    group = ["--topic", topic, "--from-beginning", "--group", f"java-{version}"]
    plain += ["--request-timeout-ms", "30000"]  # it waits 1.5 s by default, and sends again what took longer
    kafka_tools("console-producer", "--topic", topic, *plain, text="one\ntwo\nthree\n", **at)
    printed = kafka_tools("console-consumer", *group, "--max-messages", "3", **at)
    kafka_tools("console-producer", "--topic", topic, *plain, text="four\nfive\n", **at)
    rest = kafka_tools("console-consumer", *group, "--max-messages", "2", **at)
    assert sorted(printed.split()) == ["one", "three", "two"]
    assert sorted(rest.split()) == ["five", "four"]


@pytest.mark.long
def test_attributes_are_the_same_through_the_node_and_past_it(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTube
) -> None:
    topic = tubemq_topic()
    attributes = {"$streamId$": "s1", "na$me": "a$b", "word": "café"}

    def mails(first: int) -> list[Mail]:
        return [Mail(topic, b"%d" % i, ("blue", None)[i % 2], attributes=attributes) for i in range(first, first + 4)]

    with snode_before(tubemq_peer, listen=["tubemq://127.0.0.1:0"]) as node:
        through = node.url("tubemq").removeprefix("tubemq://")
        for first, masters in enumerate((tubemq_peer.address, through)):
            with tubemq_clients.producer(masters) as producer:
                assert {answer["code"] for answer in producer.send(mails(4 * first))} == {200}
        with tubemq_clients.pull(tubemq_peer.address, "past", topic) as java:
            past = java.wait_messages(8)
        with tubemq_clients.pull(through, "through", topic) as java:
            same = java.wait_messages(8)
    own = [",".join(pair for pair in line["attributes"].split(",") if not pair.startswith("$msg")) for line in past]
    assert own == [",".join(f"{name}={value}" for name, value in attributes.items())] * 8
    assert [(line["body"], line["attributes"]) for line in same] == [
        (line["body"], line["attributes"]) for line in past
    ]


def test_topics_are_made_grown_listed_and_deleted(snode: Broker, tubemq_peer: tubemq.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": snode.bootstrap})
    admin.create_topics([NewTopic("made_Here1", 3)], request_timeout=WITHIN_S)["made_Here1"].result(WITHIN_S)
    assert len(admin.list_topics().topics["made_Here1"].partitions) == 3
    write(snode.bootstrap, "made_Here1", range(30), partitions=3)
    assert numbers(read(snode.bootstrap, "made_Here1", 30, "made")) == list(range(30))
    assert set(tubemq_peer.ends("made_Here1")) == {(1, 0), (1, 10_000), (1, 20_000)}
    for name in ("with.dots", "x", "a" * 65, "naïve", "with-dash", "1st", "_x"):
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([NewTopic(name, 1)])[name].result(WITHIN_S)
        assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
        assert "cannot be a" in refused.value.args[0].str()
    admin.delete_topics(["made_Here1"])["made_Here1"].result(WITHIN_S)
    assert "made_Here1" not in admin.list_topics().topics


@pytest.mark.long
def test_what_tubemq_cannot_do_says_so(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTube) -> None:
    topic = tubemq_topic()
    with snode_before(tubemq_peer, journals="") as bare:
        asking = {"bootstrap.servers": bare.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        reader = confluent_kafka.Consumer(asking)
        try:
            reader.subscribe([topic])
            told = reader.poll(WITHIN_S)
        finally:
            reader.close()
        assert told is not None
        assert told.error() is not None
        assert told.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert "start the node with --journals" in told.error().str()
        write(bare.bootstrap, topic, range(10), partitions=1)
        assert numbers(read(bare.bootstrap, topic, 10, at={0: 0})) == list(range(10))
