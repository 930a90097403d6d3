"""The peer itself: if these fail, other interop failures say nothing about penstock."""

from pathlib import Path

import pytest

from tests.interop.peers.fixtures import KafkaBroker
from tools.peers import kafka

pytestmark = pytest.mark.interop


def test_what_the_console_producer_writes_the_console_consumer_reads(any_kafka: kafka.Broker) -> None:
    any_kafka.create_topic("lines", partitions=1, retention_ms="-1")
    any_kafka.tool("console-producer", "--topic", "lines", text="one\ntwo\nthree\n")
    read = any_kafka.tool("console-consumer", "--topic", "lines", "--from-beginning", "--max-messages", "3")
    assert read.stdout.split() == ["one", "two", "three"]
    ends = any_kafka.tool("get-offsets", "--topic", "lines")
    assert ends.stdout.strip() == "lines:0:3"


def test_a_broker_is_started_once_a_session(kafka_broker: KafkaBroker) -> None:
    assert kafka_broker(kafka.NEWEST).pid == kafka_broker(kafka.NEWEST).pid


def test_sparks_own_connector_is_whole(spark_kafka_jars: Path) -> None:
    names = {jar.name.rpartition("-")[0] for jar in spark_kafka_jars.glob("*.jar")}
    assert {"spark-sql-kafka-0-10_2.13", "kafka-clients", "commons-pool2"} <= names
