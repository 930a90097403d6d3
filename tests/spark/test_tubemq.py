"""Spark reading TubeMQ: batches, streams, filters, the group's offsets; from our node, and once from a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import Admin, Producer
from penstock.model import Partition
from penstock.testing import Broker
from tests.interop.peers.tubemq_fixtures import NewTopic
from tests.spark.queries import Collected, offsets_of, run_available
from tools.peers import tubemq, tubemq_clients
from tools.peers.tubemq_clients import Mail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STEP = 28
COLOURS = (b"blue", b"red", None)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as running:
        yield running


def fill(broker: Broker, topic: str, first: int, count: int) -> None:
    """Numbers, every third blue, red, without a filter item; number n in partition n % 2."""
    with Producer(broker.url("tubemq")) as producer:
        for n in range(first, first + count):
            colour = COLOURS[n % 3]
            headers = {"n": b"%d" % n} | ({"tubemq.filter": colour} if colour else {})
            producer.send(topic, b"%d" % n, headers=headers, partition=n % 2, timestamp_ms=1_700_000_000_000 + n)


def test_a_batch_has_every_record_and_column(spark: SparkSession, broker: Broker) -> None:
    broker.create_topic("batch", partitions=2)
    fill(broker, "batch", 0, 60)
    address = f"{broker.url('tubemq')}/batch"
    frame = spark.read.format("penstock").option("includeHeaders", "true").load(address)
    rows = sorted(frame.collect(), key=lambda row: int(row.value))
    assert [bytes(row.value) for row in rows] == [b"%d" % n for n in range(60)]
    assert {(row.topic, row.partition) for row in rows} == {("batch", 0), ("batch", 10_000)}
    assert [row.offset for row in rows] == [n // 2 * STEP for n in range(60)]
    assert [round(row.timestamp.timestamp() * 1_000) for row in rows] == [1_700_000_000_000 + n for n in range(60)]
    headers = {header.key: bytes(header.value) for header in rows[7].headers}
    assert headers == {"n": b"7", "tubemq.filter": b"red"}


def test_offsets_cut_a_batch_where_they_say(spark: SparkSession, broker: Broker) -> None:
    broker.create_topic("cut", partitions=2)
    fill(broker, "cut", 0, 60)
    where = '{"cut": {"1/0": %d, "1/10000": %d}}'
    options = {"startingOffsets": where % (5 * STEP, 0), "endingOffsets": where % (12 * STEP, 3 * STEP)}
    rows = spark.read.format("penstock").options(**options).load(f"{broker.url('tubemq')}/cut").collect()
    assert sorted(int(row.value) for row in rows) == [1, 3, 5, *range(10, 24, 2)]


def test_a_filter_in_the_address_leaves_the_others_out(spark: SparkSession, broker: Broker) -> None:
    broker.create_topic("filtered", partitions=2)
    fill(broker, "filtered", 0, 60)
    frame = spark.read.format("penstock").load(f"{broker.url('tubemq')}/filtered?filters=red,blue")
    assert sorted(int(row.value) for row in frame.collect()) == [n for n in range(60) if n % 3 < 2]


def test_a_stream_reads_everything_once_and_commits_for_its_group(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("streamed", partitions=2)
    fill(broker, "streamed", 0, 100)
    address = f"{broker.url('tubemq')}/streamed"
    options = {"startingOffsets": "earliest", "group": "spark", "commitOffsets": "true"}
    # No multiple of 28: a batch may end between two records.
    source = spark.readStream.format("penstock").options(**options, maxOffsetsPerTrigger=999).load(address)
    sink = Collected()
    assert len(run_available(source, sink, tmp_path)) == 3
    fill(broker, "streamed", 100, 20)
    run_available(source, sink, tmp_path)
    run_available(source, sink, tmp_path)
    offsets = [STEP * n for n in range(60)]
    assert sink.offsets() == {0: offsets, 10_000: offsets}
    assert '"1/10000":1680' in offsets_of(tmp_path, max(sink.batches))[0].replace(" ", "")
    with Admin(broker.url("tubemq")) as admin:
        committed = admin.committed("spark", [Partition("streamed", 0, "1"), Partition("streamed", 10_000, "1")])
    assert {place.offset for place in committed.values()} == {60 * STEP}


@pytest.mark.interop
def test_a_real_broker_is_read_in_batches_and_streams(
    spark: SparkSession, tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic, tmp_path: Path
) -> None:
    topic = tubemq_topic(partitions=2, stores=2)
    sent = [Mail(topic, b"%d" % n, ("blue", "red", None)[n % 3]) for n in range(120)]
    with tubemq_clients.producer(tubemq_peer.address) as java:
        java.send(sent)
    address = f"{tubemq_peer.url}/{topic}"
    rows = spark.read.format("penstock").load(address).collect()
    assert sorted(int(row.value) for row in rows) == list(range(120))
    reds = spark.read.format("penstock").load(f"{address}?filters=red&query_priority=303").collect()
    assert sorted(int(row.value) for row in reds) == list(range(1, 120, 3))
    options = {"startingOffsets": "earliest", "group": "sparkles", "commitOffsets": "true"}
    source = spark.readStream.format("penstock").options(**options, maxOffsetsPerTrigger=999).load(address)
    query = source.writeStream.format("memory").queryName("real").option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(int(row.value) for row in spark.table("real").collect()) == list(range(120))
