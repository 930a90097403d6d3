"""confluent-kafka, aiokafka and kafka-python against our node: produce with each codec, consume in a group, resume."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.client import Consumer
from penstock.testing import Broker
from tests.interop.foreign import CLIENTS, Foreign, samples
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SENT = samples(200)


@pytest.mark.parametrize(("client", "codec"), list(product(CLIENTS, CODECS)), ids=str)
def test_what_a_foreign_producer_sent_every_client_reads(broker: Broker, client: Foreign, codec: str) -> None:
    broker.create_topic("t")
    sent = client.sendable(SENT)
    client.produce(broker.bootstrap, "t", sent, codec)

    read = {str(other): other.consume(broker.bootstrap, "t", f"g-{other}", len(sent)) for other in CLIENTS}

    assert read == {str(other): sent for other in CLIENTS}


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_foreign_producer_sent_our_consumer_reads(broker: Broker, codec: str) -> None:
    broker.create_topic("t")
    CLIENTS[0].produce(broker.bootstrap, "t", SENT, codec)

    found = []
    with Consumer(f"{broker.address}/t", auto_offset_reset="earliest") as consumer:
        while len(found) < len(SENT):
            found.extend(consumer.poll(timeout_s=10))

    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == [
        (each.key, each.value, each.headers, each.timestamp_ms) for each in SENT
    ]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_foreign_group_goes_on_where_it_committed(broker: Broker, client: Foreign) -> None:
    broker.create_topic("t")
    sent = client.sendable(SENT)
    client.produce(broker.bootstrap, "t", sent[:120], "none")
    first = client.consume(broker.bootstrap, "t", "g", 120)
    client.produce(broker.bootstrap, "t", sent[120:], "none")

    second = client.consume(broker.bootstrap, "t", "g", 80)

    assert first + second == sent


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_committed_offsets_outlive_the_node(broker: Broker, client: Foreign) -> None:
    broker.create_topic("t")
    client.produce(broker.bootstrap, "t", client.sendable(SENT[:50]), "none")
    client.consume(broker.bootstrap, "t", "g", 50)
    broker.kill()
    broker.restart()
    client.produce(broker.bootstrap, "t", SENT[50:60], "none")

    assert client.consume(broker.bootstrap, "t", "g", 10) == SENT[50:60]


@pytest.mark.parametrize("version", [(4, 0), (4, 1), (4, 3)], ids=str)
def test_a_client_that_was_told_a_version_works_without_asking(broker: Broker, version: tuple[int, int]) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    broker.create_topic("t")
    told = {"bootstrap_servers": broker.bootstrap, "api_version": version}
    producer = KafkaProducer(**told, transactional_id="tx")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x").get(10)
    producer.commit_transaction()
    producer.close()

    consumer = KafkaConsumer(
        "t",
        **told,
        group_id="g",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=15_000,
    )
    record = next(consumer)
    consumer.close()

    assert record.value == b"x"


def test_librdkafkas_share_consumer_fails_at_once(broker: Broker) -> None:
    from confluent_kafka import KafkaException, ShareConsumer

    broker.create_topic("t")
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.subscribe(["t"])

    with pytest.raises(KafkaException, match="UNSUPPORTED_VERSION"):
        consumer.poll(20.0)
    consumer.close()


def test_javas_share_consumer_fails_in_its_first_poll(broker: Broker) -> None:
    """When that poll's time is over, whatever the fatal error is; the tool polls for as long as it may."""
    broker.create_topic("t")
    line = ["--bootstrap-server", broker.bootstrap, "--topic", "t", "--group", "g", "--timeout-ms", "5000"]
    try:
        run = kafka.tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", line)
    except Unavailable as reason:
        pytest.skip(f"no Kafka tools: {reason}")
    assert "UnsupportedVersionException: The cluster does not support the share group protocol" in run.stderr
