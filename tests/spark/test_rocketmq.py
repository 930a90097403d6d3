"""Spark with real RocketMQ brokers: batches, what brokers choose, streams and their group's offsets, the sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import NewRocketTopic
from tests.spark.queries import Collected, run_available
from tools.peers import rocketmq, rocketmq_clients
from tools.peers.rocketmq_clients import Mail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop]

BROKER = "broker-1"
WITHIN_S = 60.0


def sent_by_java(cluster: rocketmq.Cluster, topic: str, count: int) -> None:
    """Numbers, in two queues in turn; tags A, B, C, and a property n."""
    mails = [
        Mail(topic, [b"%d" % n], tags="ABC"[n % 3], keys=f"k{n}", properties={"n": str(n)}, queue=(BROKER, n % 2))
        for n in range(count)
    ]
    there = sum(end for _, end in cluster.ends(topic).values())
    with rocketmq_clients.producer(cluster.address, version=cluster.version) as java:
        assert {line["event"] for line in java.send(mails)} == {"sent"}
    comes_to(lambda: sum(end for _, end in cluster.ends(topic).values()), there + count, WITHIN_S)


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.collect())


def test_a_batch_has_what_brokers_know_and_what_they_choose(
    spark: SparkSession, served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    topic = rocketmq_topic(served_rocketmq, queues=2)
    sent_by_java(served_rocketmq, topic, 90)
    address = f"rocketmq://{served_rocketmq.address}/{topic}"
    reader = spark.read.format("penstock")
    columns = "value,key,partition,offset,timestamp,tags,keys,message_id,store_time,reconsume_times,queue,node"
    rows = sorted(reader.option("columns", columns).load(address).collect(), key=lambda row: int(row.value))
    assert [int(row.value) for row in rows] == list(range(90))
    for n, row in enumerate(rows):
        assert (row.tags, row.keys, bytes(row.key)) == ("ABC"[n % 3], f"k{n}", b"k%d" % n)
        assert (row.node, row.queue, row.partition, row.offset) == (BROKER, str(n % 2), n % 2, n // 2)
        assert row.reconsume_times == "0"
        assert int(row.store_time) >= round(row.timestamp.timestamp() * 1_000) - 1_000
    assert len({row.message_id for row in rows}) == 90

    plain = spark.read.format("penstock")
    assert numbers(plain.option("rocketmq.tags", "A || C").load(address)) == [n for n in range(90) if n % 3 != 1]
    chosen = spark.read.format("penstock").option("rocketmq.sql", "n > 50 AND TAGS <> 'B'").load(address)
    assert numbers(chosen) == [n for n in range(51, 90) if n % 3 != 1]
    none = spark.read.format("penstock").option("rocketmq.tags", "nobody").load(address)
    assert numbers(none) == []
    stored = sorted(int(row.store_time) for row in rows)
    since = spark.read.format("penstock").option("startingTimestamp", str(stored[45])).load(address)
    assert set(numbers(since)) == {int(row.value) for row in rows if int(row.store_time) >= stored[45]}


def test_a_stream_is_read_once_and_seen_by_mqadmin(
    spark: SparkSession, served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic, tmp_path: Path
) -> None:
    topic, copy = rocketmq_topic(served_rocketmq, queues=2), rocketmq_topic(served_rocketmq, queues=2)
    sent_by_java(served_rocketmq, topic, 100)
    address, group = f"rocketmq://{served_rocketmq.address}", f"{topic}-spark"
    options = {"startingOffsets": "earliest", "group": group, "commitOffsets": "true", "maxOffsetsPerTrigger": "30"}
    source = spark.readStream.format("penstock").options(**options).load(f"{address}/{topic}")
    sink = Collected()
    assert len(run_available(source, sink, tmp_path / "read")) == 4
    sent_by_java(served_rocketmq, topic, 100)
    run_available(source, sink, tmp_path / "read")
    assert sink.offsets() == {0: list(range(100)), 1: list(range(100))}
    assert served_rocketmq.committed(group, topic) == {(BROKER, 0): 100, (BROKER, 1): 100}
    progress = rocketmq_clients.admin(
        served_rocketmq.address, "consumerProgress", "-g", group, version=served_rocketmq.version
    )
    rows = [line.split()[1:5] for line in progress.splitlines() if line.startswith(topic)]
    assert rows == [[BROKER, "0", "100", "100"], [BROKER, "1", "100", "100"]]

    query = (
        source.select("key", "value").writeStream.format("penstock").option("topic", copy)
        .option("checkpointLocation", str(tmp_path / "copy")).trigger(availableNow=True).start(address)
    )  # fmt: skip
    query.awaitTermination()
    with rocketmq_clients.push(served_rocketmq.address, f"{copy}-java", copy, version=served_rocketmq.version) as java:
        java.wait_messages(200, WITHIN_S)
    assert sorted(int(body) for body in java.bodies) == sorted([*range(100)] * 2)
    assert {line["keys"] for line in java.messages} == {f"k{n}" for n in range(100)}
