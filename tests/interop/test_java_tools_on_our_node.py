"""Kafka's own command line tools, unmodified, against our node and on its files."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.client import Producer
from penstock.testing import Broker
from tools.peers import kafka

pytestmark = pytest.mark.interop
Tools = Callable[..., str]

VERSIONS = pytest.mark.parametrize("version", kafka.VERSIONS)


@VERSIONS
def test_console_producer_and_consumer(broker: Broker, kafka_tools: Tools, version: str) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    kafka_tools("topics", "--create", "--topic", "t", "--partitions", "2", **at)
    kafka_tools("console-producer", "--topic", "t", text="one\ntwo\nthree\n", **at)

    printed = kafka_tools(
        "console-consumer", "--topic", "t", "--from-beginning", "--group", "g", "--max-messages", "3", **at
    )

    assert sorted(printed.split()) == ["one", "three", "two"]


@VERSIONS
def test_topics_are_listed_described_grown_and_deleted(broker: Broker, kafka_tools: Tools, version: str) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    kafka_tools("topics", "--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=1000000", **at)
    kafka_tools("topics", "--alter", "--topic", "t", "--partitions", "5", **at)
    described = kafka_tools("topics", "--describe", "--topic", "t", **at)
    listed = kafka_tools("topics", "--list", **at)
    kafka_tools("topics", "--delete", "--topic", "t", **at)

    assert "PartitionCount: 5" in described
    assert "retention.ms=1000000" in described
    assert "t" in listed.split()
    assert "t" not in kafka_tools("topics", "--list", **at).split()


@VERSIONS
def test_groups_are_described_reset_and_deleted(broker: Broker, kafka_tools: Tools, version: str) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    broker.create_topic("t")
    with Producer(broker.address) as producer:
        for n in range(10):
            producer.send("t", value=b"%d" % n)
        producer.flush()
    kafka_tools("console-consumer", "--topic", "t", "--from-beginning", "--group", "g", "--max-messages", "10", **at)

    described = kafka_tools("groups", "--describe", "--group", "g", **at)
    row = next(line.split() for line in described.splitlines() if line.startswith("g "))
    assert row[:6] == ["g", "t", "0", "10", "10", "0"]
    assert "g" in kafka_tools("groups", "--list", **at).split()

    kafka_tools("groups", "--reset-offsets", "--to-earliest", "--group", "g", "--topic", "t", "--execute", **at)
    described = kafka_tools("groups", "--describe", "--group", "g", **at)
    row = next(line.split() for line in described.splitlines() if line.startswith("g "))
    assert row[:6] == ["g", "t", "0", "0", "10", "10"]

    kafka_tools("groups", "--delete", "--group", "g", **at)
    assert "g" not in kafka_tools("groups", "--list", **at).split()


@VERSIONS
def test_offsets_by_time(broker: Broker, kafka_tools: Tools, version: str) -> None:
    broker.create_topic("t")
    with Producer(broker.address) as producer:
        for n in range(10):
            producer.send("t", value=b"x", timestamp_ms=1_700_000_000_000 + n)
        producer.flush()

    def at(time: str) -> str:
        return kafka_tools(
            "get-offsets", "--topic", "t", "--time", time, bootstrap=broker.bootstrap, version=version
        ).strip()

    assert [at("-2"), at("-1"), at("1700000000004")] == ["t:0:0", "t:0:10", "t:0:4"]


def test_the_dump_tool_reads_our_segments(broker: Broker) -> None:
    broker.create_topic("t")
    with Producer(broker.address, compression="lz4") as producer:
        for n in range(100):
            producer.send("t", key=b"k%d" % n, value=b"v%d" % n)
        producer.flush()
    broker.stop()
    segment = broker.store_folder / "t-0" / "00000000000000000000.log"

    dumped = kafka.tool("dump-log", ["--files", str(segment), "--print-data-log"]).stdout

    assert "isvalid: false" not in dumped
    assert all(f"payload: v{n}\n" in dumped or f"payload: v{n} " in dumped for n in range(100)), dumped[:2000]


def test_the_offsets_topic_is_in_kafkas_own_format(broker: Broker, kafka_tools: Tools) -> None:
    broker.create_topic("t")
    with Producer(broker.address) as producer:
        producer.send("t", value=b"x")
        producer.flush()
    at = {"bootstrap": broker.bootstrap, "version": kafka.NEWEST}
    kafka_tools("console-consumer", "--topic", "t", "--from-beginning", "--group", "g", "--max-messages", "1", **at)

    printed = kafka_tools(
        "console-consumer",
        "--topic",
        "__consumer_offsets",
        "--from-beginning",
        "--timeout-ms",
        "4000",
        "--formatter",
        "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        **at,
    )

    keys = [json.loads(line)["key"]["data"] for line in printed.splitlines() if line.startswith("{")]
    assert {"group": "g", "topic": "t", "partition": 0} in keys
