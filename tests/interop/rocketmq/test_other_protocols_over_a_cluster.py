"""Kafka's and TubeMQ's clients before real RocketMQ clusters of two brokers, and RocketMQ's own clients beside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka as kafka_client
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tools.peers import kafka, rocketmq, rocketmq_clients, tubemq_clients, tubemq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail

pytestmark = pytest.mark.interop

LISTENERS = ["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0", "rocketmq://127.0.0.1:0"]
WITHIN_S = 60.0


@contextmanager
def snode_before(cluster: rocketmq.Cluster) -> Iterator[Broker]:
    """All three fronts before a cluster."""
    with Broker(f"rocketmq://{cluster.address.replace(';', ',')}", listen=LISTENERS) as snode:
        yield snode


def skip_without(*tools: Any) -> None:
    """What clients in Java need."""
    try:
        for each in tools:
            each()
    except Unavailable as reason:
        pytest.skip(f"no Java client: {reason}")


def read(bootstrap: str, topic: str, count: int, group: str) -> list[Any]:
    """So many records by librdkafka; then the group has committed."""
    options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = kafka_client.Consumer({"bootstrap.servers": bootstrap, **options})
    found: list[Any] = []
    try:
        reader.subscribe([topic])
        until = time.monotonic() + WITHIN_S
        while len(found) < count and time.monotonic() < until:
            found += [each for each in reader.consume(count, 0.5) if each.error() is None]
        reader.commit(asynchronous=False)
    finally:
        reader.close()
    return found


def read_until(
    bootstrap: str, topic: str, group: str, enough: Callable[[list[tuple[int, int, bytes]]], bool]
) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of each record of the topic, until that is enough."""
    options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = kafka_client.Consumer({"bootstrap.servers": bootstrap, **options})
    found: list[tuple[int, int, bytes]] = []
    try:
        reader.subscribe([topic])
        until = time.monotonic() + WITHIN_S
        while not enough(found) and time.monotonic() < until:
            some = [each for each in reader.consume(1_000, 0.5) if each.error() is None]
            found += [(each.partition(), each.offset(), each.value()) for each in some]
    finally:
        reader.close()
    return found


def test_records_of_kafka_clients_lie_in_the_queues_of_a_real_cluster(rocketmq_own: RocketMQ) -> None:
    cluster = rocketmq_own(brokers=2)
    cluster.create_topic("flow", queues=1)
    with snode_before(cluster) as snode:
        producer = kafka_client.Producer({"bootstrap.servers": snode.bootstrap, "enable.idempotence": True})
        for number in range(100):
            producer.produce("flow", b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0
        comes_to(lambda: cluster.ends("flow"), {("broker-1", 0): (0, 50), ("broker-2", 0): (0, 50)})
        records = read(snode.bootstrap, "flow", 100, "readers")
        assert [each.value() for each in records if each.partition() == 1] == [b"%d" % n for n in range(1, 100, 2)]
        assert cluster.committed("readers", "flow") == {("broker-1", 0): 50, ("broker-2", 0): 50}


@pytest.mark.long
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_java_clients_of_all_three_read_what_each_of_them_wrote(version: str, rocketmq_own: RocketMQ) -> None:
    skip_without(kafka.jars, tubemq_java.classes)
    cluster = rocketmq_own(version, brokers=2)
    with snode_before(cluster) as snode:
        admin = AdminClient({"bootstrap.servers": snode.bootstrap})
        admin.create_topics([NewTopic("flow", 4)])["flow"].result(20)
        assert cluster.queues("flow") == {"broker-1": 2, "broker-2": 2}
        masters = snode.url("tubemq").removeprefix("tubemq://")

        # Idempotent, as it is by default.
        at = ["--bootstrap-server", snode.bootstrap, "--topic", "flow"]
        kafka.tool("console-producer", [*at, "--reader-property", "parse.key=true"], text="k1\tkafka-1\nk2\tkafka-2\n")
        with rocketmq_clients.producer(cluster.address, version=version) as sender:
            mails = [Mail("flow", [b"rocket-1"], tags="A", keys="k3", properties={"colour": "blue"}, flag=7)]
            sender.send([*mails, Mail("flow", [b"rocket-2", b"rocket-3"]), Mail("flow", [b"x" * 9_000])])
        with tubemq_clients.producer(masters) as sender:
            answers = sender.send([tubemq_clients.Mail("flow", b"tube-1", "red", attributes={"seq": "1"})])
        assert [each["code"] for each in answers] == [200]
        bodies = sorted([b"kafka-1", b"kafka-2", b"rocket-1", b"rocket-2", b"rocket-3", b"x" * 9_000, b"tube-1"])

        with rocketmq_clients.lite(cluster.address, "lite", "flow", version=version) as lite:
            lite.wait_messages(len(bodies), WITHIN_S)
        with tubemq_clients.pull(masters, "tubes", "flow") as pull:
            pull.wait_messages(len(bodies), WITHIN_S)
        count = str(len(bodies))
        wanted = [*at, "--from-beginning", "--group", "java.kafka", "--max-messages", count]
        printed = kafka.tool("console-consumer", wanted).stdout
        records = read(snode.bootstrap, "flow", len(bodies), "readers")

        assert sorted(lite.bodies) == bodies
        assert sorted(pull.bodies) == [*bodies[:-1], b"x" * 9_000]
        assert sorted(line.encode() for line in printed.split()) == bodies
        assert sorted(each.value() for each in records) == bodies
        keys = {each["body"]: each["keys"] for each in lite.messages}
        assert (keys[b"kafka-1"], keys[b"rocket-1"]) == ("k1", "k3")
        (rocket,) = (each for each in records if each.value() == b"rocket-1")
        headers = dict(rocket.headers())
        assert (rocket.key(), headers["TAGS"], headers["colour"], headers["rocketmq.flag"]) == (
            b"k3",
            b"A",
            b"blue",
            b"7",
        )
        ends = {queue: end for queue, (_, end) in cluster.ends("flow").items() if end}
        for group in ("readers", "java%u2e%kafka"):
            committed = cluster.committed(group, "flow")
            assert {queue: offset for queue, offset in committed.items() if offset > 0} == ends
        if version == rocketmq.NEWEST:
            assert "flow" in rocketmq_clients.admin(
                cluster.address, "consumerProgress", "-g", "readers", version=version
            )


@pytest.mark.long
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_a_record_is_the_same_whether_a_cluster_or_the_node_keeps_the_message(
    version: str, rocketmq_own: RocketMQ
) -> None:
    cluster = rocketmq_own(version, brokers=2)
    cluster.create_topic("flow", queues=1)
    mails = [
        Mail("flow", [b"1"], tags="A", keys="k", properties={"a": "b", "ü": "日本"}, flag=3),
        Mail("flow", [b"2", b"3"], tags="B"),
        Mail("flow", [b"4" * 9_000], keys="two words"),
        Mail("flow", [b"5"], how="oneway"),
    ]

    def kept(bootstrap: str) -> list[tuple[object, ...]]:
        found = read(bootstrap, "flow", 5, "readers")
        rows = [(each.value(), each.key(), dict(each.headers() or ())) for each in found]
        for _, _, headers in rows:
            headers.pop("UNIQ_KEY", None)
            headers.pop("rocketmq.born_host", None)  # brokers keep it elsewhere
        return sorted((value, key, sorted(headers.items())) for value, key, headers in rows)

    with Broker(listen=LISTENERS) as node:
        node.create_topic("flow")
        with rocketmq_clients.producer(node.url("rocketmq").removeprefix("rocketmq://"), version=version) as sender:
            sender.send(mails)
        wanted = kept(node.bootstrap)
    with rocketmq_clients.producer(cluster.address, version=version) as sender:
        sender.send(mails)
    with snode_before(cluster) as snode:
        assert kept(snode.bootstrap) == wanted


@pytest.mark.long
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_what_a_producer_was_told_is_stored_is_there_though_a_broker_was_killed(
    version: str, rocketmq_own: RocketMQ
) -> None:
    cluster = rocketmq_own(version, brokers=2)
    cluster.create_topic("flow", queues=2)
    told: dict[bytes, tuple[int, int]] = {}
    refused: list[KafkaError] = []
    enough = threading.Event()

    def written(error: KafkaError | None, message: Any) -> None:
        if error is None:
            told[message.value()] = (message.partition(), message.offset())
        else:
            refused.append(error)

    with snode_before(cluster) as snode:
        options = {"bootstrap.servers": snode.bootstrap, "enable.idempotence": True, "linger.ms": 2}
        producer = kafka_client.Producer(options)

        def write() -> None:
            number = 0
            while not enough.wait(0.002):
                producer.produce("flow", b"%d" % number, partition=number % 4, on_delivery=written)
                producer.poll(0)
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for broker in cluster.brokers:
                before = len(told)
                comes_to(lambda: len(told) > before + 200, True, 60)  # noqa: B023 - called before the next round
                broker.kill()
                broker.start()
        finally:
            enough.set()
            writer.join()
        assert producer.flush(60) == 0
        assert not refused
        # By place: what was sent again after a lost answer may be there twice, and the first one is not what was told.
        places = set(told.values())
        found = read_until(snode.bootstrap, "flow", "readers", lambda those: places <= {each[:2] for each in those})
        there = {(partition, offset): value for partition, offset, value in found}
        assert len(there) == len(found)
        wrong = {value: (place, there.get(place)) for value, place in told.items() if there.get(place) != value}
        elsewhere = {value: (partition, offset) for partition, offset, value in found if value in wrong}
        assert (wrong, elsewhere) == ({}, {})


@pytest.mark.long
def test_what_a_cluster_of_rocketmq_cannot_do_says_so(rocketmq_own: RocketMQ) -> None:
    cluster = rocketmq_own(brokers=2)
    with snode_before(cluster) as snode:
        at = {"bootstrap.servers": snode.bootstrap}
        admin = AdminClient(at)
        for name, config, code, words in (
            ("my.topic", {}, KafkaError.TOPIC_EXCEPTION, "Letters, digits"),
            ("compacted", {"cleanup.policy": "compact"}, KafkaError.INVALID_CONFIG, "compact"),
            ("short", {"retention.ms": "1000"}, KafkaError.INVALID_CONFIG, "fileReservedTime"),
        ):
            with pytest.raises(KafkaException, match=words) as failed:
                admin.create_topics([NewTopic(name, 1, config=config)])[name].result(20)
            assert failed.value.args[0].code() == code
        admin.create_topics([NewTopic("flow", 1)])["flow"].result(20)
        with pytest.raises(KafkaException) as failed:
            kafka_client.Producer({**at, "transactional.id": "t"}).init_transactions(20)
        assert failed.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        with pytest.raises(KafkaException):
            admin.delete_records([TopicPartition("flow", 0, 0)])[TopicPartition("flow", 0, 0)].result(20)
        told: list[KafkaError | None] = []
        producer = kafka_client.Producer(at)
        large = [("h", b"x" * 40_000)]
        producer.produce("flow", b"v", headers=large, on_delivery=lambda error, message: told.append(error))
        producer.flush(20)
        assert told[0] is not None
