"""A real Kafka and a real RocketMQ behind one node with a log of its own, by rule: librdkafka and RocketMQ's Java
client read and write topics of all three, and one group reads them together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as kafka_client
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.fixtures import KafkaBroker
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tools.peers import kafka, rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail

pytestmark = [pytest.mark.interop, pytest.mark.long]

WITHIN_S = 60.0
TOPICS = ("mine", "orders-eu", "orders-us", "events-a", "events-b")
PARTITIONS = 3
EACH = 30


@pytest.fixture
def clusters(kafka_broker: KafkaBroker, rocketmq_own: RocketMQ) -> tuple[kafka.Broker, rocketmq.Cluster]:
    return kafka_broker(kafka.NEWEST), rocketmq_own(brokers=1)


@pytest.fixture
def node(clusters: tuple[kafka.Broker, rocketmq.Cluster], tmp_path: Path) -> Iterator[Broker]:
    orders, events = clusters
    with Broker(
        f"file:{tmp_path}",
        enodes=[f"kafka://{orders.bootstrap}", f"rocketmq://{events.address.replace(';', ',')}"],
        topics=["orders-*=kafka", "events-*=rocketmq"],
        listen=["kafka://127.0.0.1:0", "rocketmq://127.0.0.1:0"],
    ) as running:
        yield running


def read(bootstrap: str, count: int) -> list[Any]:
    """So many records of all topics, by one group, which then has committed them."""
    options = {"group.id": "all", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = kafka_client.Consumer({"bootstrap.servers": bootstrap, **options})
    found: list[Any] = []
    try:
        reader.subscribe(list(TOPICS))
        until = time.monotonic() + WITHIN_S
        while len(found) < count and time.monotonic() < until:
            found += [each for each in reader.consume(count, 0.5) if each.error() is None]
        reader.commit(asynchronous=False)
    finally:
        reader.close()
    return found


def test_a_group_reads_topics_of_three_places(
    node: Broker, clusters: tuple[kafka.Broker, rocketmq.Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    orders, events = clusters
    orders.create_topic("orders-eu", PARTITIONS)
    orders.create_topic("elsewhere", 1)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS) for name in TOPICS if name != "orders-eu"]).values():
        made.result(WITHIN_S)

    def shown() -> dict[str, int]:
        told = admin.list_topics(timeout=WITHIN_S).topics
        assert "elsewhere" not in told
        return {name: len(told[name].partitions) for name in TOPICS if name in told}

    # What others make in a Kafka cluster is listed half a minute later.
    comes_to(shown, dict.fromkeys(TOPICS, PARTITIONS), WITHIN_S)
    assert {"orders-eu", "orders-us", "elsewhere"} <= set(orders.tool("topics", "--list").stdout.split())
    assert set(events.queues("events-a").values()) == {PARTITIONS}

    sent = []
    producer = kafka_client.Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for topic in TOPICS:
        for number in range(EACH):
            sent.append((topic, number % PARTITIONS, b"%d" % number))
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    found = read(node.bootstrap, len(sent))
    assert sorted((each.topic(), each.partition(), each.value()) for each in found) == sorted(sent)
    comes_to(lambda: sum(last for _, last in events.ends("events-a").values()), EACH)

    again = kafka_client.Producer({"bootstrap.servers": node.bootstrap})
    for topic in TOPICS:
        again.produce(topic, b"again", partition=0)
    assert again.flush(WITHIN_S) == 0
    assert sorted(each.topic() for each in read(node.bootstrap, len(TOPICS))) == sorted(TOPICS)
    assert f"topics of kafka://{orders.bootstrap} are not shown" in caplog.text
    assert "(1): elsewhere" in caplog.text


def test_rocketmqs_own_client_is_served_as_by_a_log_of_the_nodes_own(
    node: Broker, clusters: tuple[kafka.Broker, rocketmq.Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    try:
        rocketmq_java.classes(rocketmq.NEWEST)
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ client: {reason}")
    names = node.url("rocketmq").removeprefix("rocketmq://")
    topics = ("events-rocket", "orders-rocket", "mine-rocket")
    for topic in topics:
        node.create_topic(topic, PARTITIONS)
    with rocketmq_clients.producer(names) as sender:
        for topic in topics:
            answers = sender.send(
                [Mail(topic, [b"%s-%d" % (topic.encode(), n)], tags="A", keys=f"k{n}") for n in range(6)]
            )
            assert [each["event"] for each in answers] == ["sent"] * 6
    for topic in topics:
        with rocketmq_clients.push(names, f"readers-of-{topic}", topic) as push:
            push.wait_messages(6, WITHIN_S)
        assert sorted(push.bodies) == [b"%s-%d" % (topic.encode(), n) for n in range(6)]
    comes_to(lambda: sum(last for _, last in clusters[1].ends("events-rocket").values()), 6)
    told = [each.getMessage() for each in caplog.get_records("setup")]
    assert [each for each in told if each.startswith("what RocketMQ's clients ask is not handed on to rocketmq://")]
