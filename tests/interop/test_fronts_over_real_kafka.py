"""RocketMQ's and TubeMQ's own Java clients on a node whose topics a real Kafka cluster keeps, and librdkafka on that
cluster itself: each reads what the others wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing import Broker
from tests.interop.peers.fixtures import KafkaBroker
from tools.peers import kafka, rocketmq_clients, rocketmq_java, tubemq_clients, tubemq_java
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

WITHIN_S = 60.0
PARTITIONS = 5
EACH = 20
LISTENERS = ["rocketmq://127.0.0.1:0", "kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]


@pytest.fixture(params=[pytest.param(kafka.VERSIONS[0], marks=pytest.mark.long), kafka.NEWEST], scope="module")
def cluster(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> kafka.Broker:
    """Of the oldest version that is tested with, and of the newest."""
    return kafka_broker(request.param)


@pytest.fixture(scope="module")
def node(cluster: kafka.Broker) -> Iterator[Broker]:
    with Broker(f"kafka://{cluster.bootstrap}", listen=LISTENERS, offsets_partitions=2) as running:
        yield running


def written_by_kafka(cluster: kafka.Broker, topic: str) -> list[bytes]:
    """A few into each partition, by librdkafka and compressed."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    sent = [b"kafka-%d" % number for number in range(EACH)]
    for number, value in enumerate(sent):
        producer.produce(topic, value, key=b"k%d" % number, partition=number % PARTITIONS)
    assert not producer.flush(WITHIN_S)
    return sent


def read_by_kafka(cluster: kafka.Broker, topic: str, count: int) -> list[bytes]:
    """What the cluster has, from the beginning, sorted; fails unless it is so many."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "straight", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(WITHIN_S)
        assert message is not None, f"only {len(found)} of {count} came"
        assert message.error() is None
        found.append(message.value() or b"")
    consumer.close()
    return sorted(found)


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.4.0"])
def test_rocketmqs_client_and_kafkas_read_one_anothers_messages(
    node: Broker, cluster: kafka.Broker, version: str
) -> None:
    try:
        rocketmq_java.classes(version)
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ client: {reason}")
    topic = f"Flights-of_{version.replace('.', '-')}"
    cluster.create_topic(topic, PARTITIONS)
    names = node.url("rocketmq").removeprefix("rocketmq://")
    sent = written_by_kafka(cluster, topic)
    with rocketmq_clients.producer(names, version=version) as sender:
        mails = [rocketmq_clients.Mail(topic, [b"rocket-%d" % number], keys=f"k{number}") for number in range(EACH)]
        answers = sender.send(mails)
    assert [line["event"] for line in answers] == ["sent"] * EACH
    assert len({line["queue"] for line in answers}) == PARTITIONS
    wanted = sorted(sent + [body for mail in mails for body in mail.bodies])
    assert read_by_kafka(cluster, topic, len(wanted)) == wanted
    with rocketmq_clients.push(names, f"readers-of-{topic}", topic, version=version) as push:
        push.wait_messages(len(wanted), WITHIN_S)
        written_by_kafka(cluster, topic)  # while it waits
        push.wait_messages(len(wanted) + EACH, WITHIN_S)
    assert sorted(push.bodies) == sorted(wanted + sent)


def test_tubemqs_client_and_kafkas_read_one_anothers_messages(node: Broker, cluster: kafka.Broker) -> None:
    try:
        tubemq_java.jars()
    except Unavailable as reason:
        pytest.skip(f"no TubeMQ client: {reason}")
    topic = "flow_of_five"
    cluster.create_topic(topic, PARTITIONS)
    masters = node.url("tubemq").removeprefix("tubemq://")
    sent = written_by_kafka(cluster, topic)
    mails = [tubemq_clients.Mail(topic, b"tube-%d" % number) for number in range(EACH)]
    with tubemq_clients.producer(masters) as sender:
        assert {answer["code"] for answer in sender.send(mails)} == {200}
    wanted = sorted(sent + [mail.body for mail in mails])
    assert read_by_kafka(cluster, topic, len(wanted)) == wanted
    with tubemq_clients.pull(masters, "readers", topic) as java:
        assert sorted(line["body"] for line in java.wait_messages(len(wanted))) == wanted


@pytest.mark.long
def test_kafkas_own_tools_see_what_is_written_through_the_node(node: Broker, cluster: kafka.Broker) -> None:
    topic = "through"
    cluster.create_topic(topic, PARTITIONS)
    lines = "".join(f"line {number}\n" for number in range(EACH))
    kafka.tool("console-producer", ["--bootstrap-server", node.bootstrap, "--topic", topic], text=lines)
    assert read_by_kafka(cluster, topic, EACH) == sorted(lines.encode().splitlines())
    words = ["--bootstrap-server", node.bootstrap, "--topic", topic, "--from-beginning", "--max-messages", str(EACH)]
    assert sorted(kafka.tool("console-consumer", words).stdout.splitlines()) == sorted(lines.splitlines())
    listed = cluster.tool("topics", "--list").stdout.split()
    assert {topic, "__penstock_1__consumer_offsets"} <= set(listed)
