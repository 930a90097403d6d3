"""The same job through Spark's own Kafka connector and through ours gives the same rows.

On a real Kafka and on our node. The reference is Spark's connector on a real Kafka. What differs on purpose is listed,
with reasons, in docs/spark-and-kafka-connector.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.model import Partition
from penstock.testing import Broker
from tests.interop.peers.fixtures import KafkaBroker
from tools.peers import kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.interop

START_MS = 1_700_000_000_000
COUNTS = {"parity-a": (120, 40, 0), "parity-b": (15,), "parity-cut": (50, 50)}
CODECS = ("none", "lz4", "gzip", "zstd", "snappy")


@dataclass(frozen=True)
class Job:
    """Options that both sources are given. ``rows`` is a floor, so that two empty answers are not taken for parity."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    rows: int = 1
    stream: bool = False


def job(name: str, rows: int = 1, *, stream: bool = False, subscribe: str = "parity-a", **options: Any) -> Job:
    ways = {"subscribe", "subscribePattern", "assign"} & options.keys()
    return Job(name, {**({} if ways else {"subscribe": subscribe}), **options}, rows, stream)


def at(partitions: dict[str, Any], topic: str = "parity-a") -> str:
    return json.dumps({topic: partitions})


JOBS = [
    job("everything", 160),
    job("two topics", 175, subscribe="parity-a, parity-b"),
    job("a pattern", 175, subscribePattern="parity-[ab]"),
    job("some partitions", 55, assign='{"parity-a":[1,2],"parity-b":[0]}'),
    job("offsets", 30, startingOffsets=at({"0": 100, "1": -2, "2": -2}),
        endingOffsets=at({"0": 105, "1": 25, "2": -1})),
    job("from a time", 60, startingTimestamp=START_MS + 60_000, startingOffsetsByTimestampStrategy="latest"),
    job(
        "from times",
        50,
        startingOffsetsByTimestamp=at({"0": START_MS + 70_000, "1": START_MS + 39_500, "2": START_MS}),
        startingOffsetsByTimestampStrategy="latest",
    ),
    job("to a time", 100, endingTimestamp=START_MS + 60_500),
    job("to times", 25, endingOffsetsByTimestamp=at({"0": START_MS + 20_000, "1": START_MS + 5_000, "2": START_MS})),
    job("time wins over offsets", 20, startingOffsets="earliest", endingOffsets="latest",
        startingTimestamp=START_MS + 100_000, startingOffsetsByTimestampStrategy="latest"),
    job("the most precise start and end win", 40, startingOffsets="earliest", endingOffsets="latest",
        startingOffsetsByTimestamp=at({"0": START_MS, "1": START_MS, "2": START_MS}),
        endingOffsetsByTimestamp=at({"0": START_MS, "1": START_MS, "2": START_MS}),
        startingTimestamp=START_MS + 60_000, endingTimestamp=START_MS + 100_000,
        startingOffsetsByTimestampStrategy="latest"),
    job("times win over offsets, partition by partition", 45, startingOffsets="earliest", endingOffsets="latest",
        startingOffsetsByTimestamp=at({"0": START_MS + 80_000, "1": START_MS + 35_000, "2": START_MS}),
        startingOffsetsByTimestampStrategy="latest"),
    job("with headers", 160, includeHeaders="true"),
    job("more tasks", 160, minPartitions="7"),
    job("small tasks", 160, maxRecordsPerPartition="9"),
    job("client options", 160, **{
        "kafka.max.poll.records": "7", "kafka.fetch.max.wait.ms": "10", "kafka.receive.buffer.bytes": "65536",
        "kafka.check.crcs": "true", "kafkaConsumer.pollTimeoutMs": "60000", "fetchOffset.numRetries": "5",
        "fetchOffset.retryIntervalMs": "20", "groupIdPrefix": "parity", "failOnDataLoss": "false",
    }),
    job("a group of one's own", 160, **{"kafka.group.id": "parity-group"}),
    job("a log that begins later", 80, subscribe="parity-cut"),
    job("offsets that are gone, allowed", 80, subscribe="parity-cut", failOnDataLoss="false",
        startingOffsets=at({"0": 5, "1": 0}, "parity-cut")),
    job("committed records", 60, subscribe="parity-txn", **{"kafka.isolation.level": "read_committed"}),
    job("uncommitted records", 100, subscribe="parity-txn"),
    job("committed records in small tasks", 60, subscribe="parity-txn", minPartitions="6",
        **{"kafka.isolation.level": "read_committed"}),
    job("stream of committed records", 60, stream=True, subscribe="parity-txn", startingOffsets="earliest",
        maxOffsetsPerTrigger="25", **{"kafka.isolation.level": "read_committed"}),
    job("stream of everything", 160, stream=True, startingOffsets="earliest"),
    job("stream from the end", 0, stream=True),
    job("stream of a pattern", 175, stream=True, subscribePattern="parity-[ab]", startingOffsets="earliest"),
    job("stream of partitions", 40, stream=True, assign='{"parity-a":[1]}', startingOffsets="earliest"),
    job("stream in small batches", 160, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="30"),
    job("stream from offsets", 23, stream=True, startingOffsets=at({"0": 100, "1": 37, "2": -1})),
    job("stream from a time", 60, stream=True, startingTimestamp=START_MS + 60_000,
        startingOffsetsByTimestampStrategy="latest"),
    job("stream from times", 50, stream=True, startingOffsetsByTimestampStrategy="latest",
        startingOffsetsByTimestamp=at({"0": START_MS + 70_000, "1": START_MS + 39_500, "2": START_MS})),
    job("stream with headers and small tasks", 160, stream=True, startingOffsets="earliest", includeHeaders="true",
        maxRecordsPerPartition="11", minPartitions="5"),
    job("stream of a log that begins later", 80, stream=True, subscribe="parity-cut", startingOffsets="earliest"),
]  # fmt: skip

REFUSED = [
    job("starting at the end of a batch", startingOffsets="latest"),
    job("ending at the start", endingOffsets="earliest"),
    job("offsets for some partitions only", startingOffsets=at({"0": 1})),
    job("offsets that are gone", subscribe="parity-cut", startingOffsets=at({"0": 5, "1": 0}, "parity-cut")),
    Job("two subscriptions", {"subscribe": "parity-a", "assign": '{"parity-a":[0]}'}),
    job("a time that no record has", startingTimestamp=START_MS + 60_000),
    job("the client's own start", **{"kafka.auto.offset.reset": "earliest"}),
    job("decoding by the client", **{"kafka.value.deserializer": "org.example.Mine"}),
    job("a topic that is not there", subscribe="parity-none", **{"kafka.allow.auto.create.topics": "false"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def servers(kafka_broker: KafkaBroker) -> Iterator[dict[str, str]]:
    """Bootstrap addresses of a real Kafka and of our node, with the same records in both."""
    with Broker() as ours:
        found = {"kafka": kafka_broker(kafka.NEWEST).bootstrap, "snode": ours.bootstrap}
        for bootstrap in found.values():
            load(f"kafka://{bootstrap}")
        yield found


def load(url: str) -> None:
    with Admin(url) as admin:
        admin.create_topics([NewTopic(name, len(counts)) for name, counts in COUNTS.items()])
    for number, (topic, counts) in enumerate(COUNTS.items()):
        for partition, count in enumerate(counts):
            codec = CODECS[(number + 2 * partition) % len(CODECS)]
            with Producer(url, compression=codec, linger_ms=0) as producer:
                for first in range(0, count, 25):
                    producer.send_batch(topic, rows(partition, first, min(first + 25, count))).result()
    with Admin(url) as admin:
        admin.delete_records({Partition("parity-cut", 0): 20})
    load_transactions(url)


def load_transactions(url: str) -> None:
    """Five transactions of 20 records each, the second and fourth aborted: markers leave gaps in the offsets."""
    with Admin(url) as admin:
        admin.create_topics([NewTopic("parity-txn", 1)])
    with Producer(url, transactional_id=f"parity-{uuid4().hex[:8]}") as producer:
        producer.init_transactions()
        for number in range(5):
            producer.begin_transaction()
            producer.send_batch("parity-txn", rows(0, 20 * number, 20 * number + 20))
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def rows(partition: int, first: int, end: int) -> pa.Table:
    numbers = range(first, end)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    pairs = [[("n", b"%d" % n), ("n", None), ("", b"")][: n % 4] or None for n in numbers]
    return pa.table(
        {
            "key": pa.array([None if n % 5 == 0 else b"key-%d" % n for n in numbers], pa.binary()),
            "value": pa.array([None if n % 7 == 3 else b"" if n % 7 == 4 else b"v" * n for n in numbers], pa.binary()),
            "timestamp": pa.array([START_MS + 1_000 * n for n in numbers], pa.timestamp("ms", "UTC")),
            "partition": pa.array([partition] * len(numbers), pa.int32()),
            "headers": pa.array(
                [None if each is None else [{"key": k, "value": v} for k, v in each] for each in pairs], headers
            ),
        }
    )


Row = tuple[Any, ...]


def frame(spark: SparkSession, source: str, wanted: Job, bootstrap: str) -> DataFrame:
    options = {**wanted.options, "kafka.bootstrap.servers": bootstrap}
    if "kafka.group.id" in options:  # Spark's connector does not take the same group to another server
        options["kafka.group.id"] += bootstrap
    reader = spark.readStream if wanted.stream else spark.read
    return reader.format(source).options(**options).load()


def run(spark: SparkSession, source: str, wanted: Job, bootstrap: str, folder: Path) -> tuple[list[Any], list[Row]]:
    """(the schema, all rows in a fixed order)."""
    found = frame(spark, source, wanted, bootstrap)
    schema = [(each.name, each.dataType.simpleString()) for each in found.schema]
    if not wanted.stream:
        return schema, plain(found)
    kept: list[Row] = []
    writer = found.writeStream.foreachBatch(lambda batch, _: kept.extend(plain(batch)))
    query = writer.option("checkpointLocation", str(folder / source)).trigger(availableNow=True).start()
    query.awaitTermination()
    return schema, sorted(kept, key=repr)


def plain(found: DataFrame) -> list[Row]:
    return sorted((tuple(map(value, row)) for row in found.collect()), key=repr)


def value(cell: Any) -> Any:
    if isinstance(cell, bytearray):
        return bytes(cell)
    return [tuple(map(value, pair)) for pair in cell] if isinstance(cell, list) else cell


@pytest.mark.parametrize("wanted", JOBS, ids=lambda each: each.name)
def test_same_rows(spark: SparkSession, servers: dict[str, str], wanted: Job, tmp_path: Path) -> None:
    expected = run(spark, "kafka", wanted, servers["kafka"], tmp_path / "reference")
    assert len(expected[1]) >= wanted.rows
    assert run(spark, "penstock", wanted, servers["kafka"], tmp_path / "kafka") == expected
    assert run(spark, "penstock", wanted, servers["snode"], tmp_path / "snode") == expected
    assert run(spark, "kafka", wanted, servers["snode"], tmp_path / "snode") == expected


@pytest.mark.parametrize("wanted", REFUSED, ids=lambda each: each.name)
def test_both_refuse(spark: SparkSession, servers: dict[str, str], wanted: Job, tmp_path: Path) -> None:
    for source in ("kafka", "penstock"):
        for server, bootstrap in servers.items():
            with pytest.raises(Exception, match=r"(?s)."):  # each in its own words
                run(spark, source, wanted, bootstrap, tmp_path / server)


def test_the_progress_has_the_same_metrics(spark: SparkSession, servers: dict[str, str], tmp_path: Path) -> None:
    from penstock.spark import with_metrics

    names = ("avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest")
    seen = {}
    for source in ("kafka", "penstock"):
        wanted = job("one partition", stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="16",
                     assign='{"parity-a":[1]}')  # fmt: skip
        writer = frame(spark, source, wanted, servers["kafka"]).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / source)).trigger(availableNow=True).start()
        query.awaitTermination()
        told = [with_metrics(each)["sources"][0]["metrics"] for each in query.recentProgress]
        seen[source] = [[each[name] for name in names] for each in told]
    assert seen["kafka"] == [["24.0", "24", "24"], ["8.0", "8", "8"], ["0.0", "0", "0"]]
    assert seen["penstock"] == seen["kafka"]


def test_any_kafka_tool_shows_the_lag_of_the_stream(
    spark: SparkSession, servers: dict[str, str], kafka_tools: Callable[..., str], tmp_path: Path
) -> None:
    ours = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "70", "commitOffsets": "true"}
    for server, bootstrap in servers.items():
        group = f"stream-{server}"
        run(spark, "penstock", job("lag", 160, stream=True, group=group, **ours), bootstrap, tmp_path / server)
        told = kafka_tools("groups", "--describe", "--group", group, bootstrap=bootstrap)
        lines = [line.split() for line in told.splitlines() if line.startswith(group)]
        found = {(topic, partition): (offset, end, lag) for _, topic, partition, offset, end, lag, *_ in lines}
        assert found == {
            ("parity-a", "0"): ("120", "120", "0"),
            ("parity-a", "1"): ("40", "40", "0"),
            ("parity-a", "2"): ("0", "0", "0"),
        }
