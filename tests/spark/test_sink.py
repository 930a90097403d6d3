"""Writing: batches and streams, topics by option and by column, what arrives, and what is refused before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock.spark
from penstock.client import RangeReader
from penstock.model import LogRange
from tests.spark.logs import TestTopic
from tests.spark.queries import stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ALL = ("key", "value", "partition", "timestamp", "headers")


def stored(topic: TestTopic, columns: tuple[str, ...] = ("key", "value")) -> list[dict[str, Any]]:
    """All records of a topic, by partition and offset."""
    with RangeReader(topic.node) as reader:
        rows: list[dict[str, Any]] = []
        for number, end in sorted(topic.ends().items()):
            for messages in reader.read(LogRange(topic.name, number, 0, end)):
                rows += messages.to_arrow(columns).to_pylist()
    return rows


def numbered(spark: SparkSession, count: int, *, tasks: int = 2) -> DataFrame:
    """Rows with key "n" and value "v-n"."""
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) key", "concat('v-', id) value")


def test_batch_arrives_as_it_is(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    frame = spark.sql(
        """
        select 'k' key, cast('v' as binary) value, 1 partition, timestamp '2020-01-02 03:04:05.006Z' timestamp,
               array(struct('a' as key, cast('1' as binary) as value)) headers, 'left out' other
        union all select null, null, 0, timestamp '1969-12-31 23:59:59Z', null, 'left out'
        """
    )
    frame.write.format("penstock").mode("append").save(topic.address)
    first, second = stored(topic, ALL)
    assert (first["key"], first["value"], first["partition"], first["headers"]) == (None, None, 0, [])
    assert first["timestamp"].isoformat() == "1969-12-31T23:59:59+00:00"
    assert (second["key"], second["value"], second["partition"]) == (b"k", b"v", 1)
    assert second["headers"] == [{"key": "a", "value": b"1"}]
    assert second["timestamp"].isoformat() == "2020-01-02T03:04:05.006000+00:00"


def test_each_row_goes_to_the_topic_it_names(spark: SparkSession, topic: TestTopic) -> None:
    other = TestTopic(topic.node, f"{topic.name}-other")
    topic.create(1)
    other.create(1)
    frame = numbered(spark, 1_000).selectExpr("*", f"if(key % 3 = 0, '{topic.name}', '{other.name}') topic")
    servers = topic.node.removeprefix("kafka://")
    frame.write.format("penstock").mode("append").option("kafka.bootstrap.servers", servers).save()
    ours, theirs = stored(topic), stored(other)
    assert sorted(int(row["key"]) for row in ours) == [n for n in range(1_000) if n % 3 == 0]
    assert sorted(int(row["key"]) for row in theirs) == [n for n in range(1_000) if n % 3]


def test_stream_from_log_to_log(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    target = TestTopic(topic.node, f"{topic.name}-copy")
    topic.create(2)
    target.create(2)
    topic.fill({0: 300, 1: 200})
    frame = stream(spark, topic, startingOffsets="earliest", maxOffsetsPerTrigger=100).drop("topic")
    query = (
        frame.writeStream.format("penstock")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .queryName("copy")
        .trigger(availableNow=True)
        .start(target.address)
    )
    query.awaitTermination()
    assert target.ends() == {0: 300, 1: 200}
    assert stored(target, ("key", "value", "partition", "timestamp")) == stored(
        topic, ("key", "value", "partition", "timestamp")
    )


@pytest.mark.parametrize("mode", ["append", "complete"])  # Spark refuses update for every Python sink
def test_output_modes_are_those_of_sparks_own_sink(
    spark: SparkSession, topic: TestTopic, tmp_path: Path, mode: str
) -> None:
    target = TestTopic(topic.node, f"{topic.name}-copy")
    topic.create(1)
    target.create(1)
    topic.fill({0: 20})
    frame = stream(spark, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    if mode != "append":
        frame = frame.groupBy("partition").count().selectExpr("cast(count as string) value")
    query = (
        frame.select("value")
        .writeStream.format("penstock")
        .outputMode(mode)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("topic", target.name)
        .trigger(availableNow=True)
        .start(topic.node)
    )
    query.awaitTermination()
    values = [row["value"] for row in stored(target)]
    assert len(values) == 20 if mode == "append" else values == [b"10", b"20"]


def test_refusals_name_the_culprit_and_the_way_out(spark: SparkSession, topic: TestTopic) -> None:
    frame = numbered(spark, 1)
    write = frame.write.format("penstock").mode("append")
    with pytest.raises(Exception, match=r"column vaule .* would not be written. Did you mean value"):
        frame.withColumnRenamed("value", "vaule").write.format("penstock").mode("append").save(topic.address)
    with pytest.raises(Exception, match="nothing says which topic to write to"):
        write.save(topic.node)
    with pytest.raises(Exception, match=r"there is no option toopic .* Did you mean topic"):
        write.option("toopic", "t").save(topic.address)
    with pytest.raises(Exception, match="a log cannot be overwritten"):
        frame.write.format("penstock").mode("overwrite").save(topic.address)


def test_failed_write_says_which_topic_is_missing(spark: SparkSession, topic: TestTopic) -> None:
    write = numbered(spark, 1).write.format("penstock").mode("append")
    with pytest.raises(Exception, match=f"know no such topic.*{topic.name}"):
        write.option("kafka.allow.auto.create.topics", "false").save(topic.address)


def test_the_server_makes_a_missing_topic_as_for_other_producers(spark: SparkSession, topic: TestTopic) -> None:
    numbered(spark, 5).write.format("penstock").mode("append").save(topic.address)
    assert spark.read.format("penstock").load(topic.address).count() == 5


def test_repeated_rows_are_dropped_by_whoever_reads(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    target = TestTopic(topic.node, f"{topic.name}-copy")
    topic.create(1)
    target.create(1)
    topic.fill({0: 30})
    for run in range(2):  # the second one finds a checkpoint that has lost its last commit
        query = (
            stream(spark, topic, startingOffsets="earliest")
            .select("key", "value")
            .writeStream.format("penstock")
            .options(dedupHeaders="true", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(target.address)
        )
        query.awaitTermination()
        if run == 0:
            for log in (tmp_path / "checkpoint" / "commits").iterdir():
                log.unlink()
    assert target.ends() == {0: 60}
    frame = spark.read.format("penstock").option("includeHeaders", "true").load(target.address)
    assert penstock.spark.drop_repeated(frame).count() == 30
    assert "_row" not in penstock.spark.drop_repeated(frame, watermark="1 hour").columns
    theirs = spark.read.format("penstock").option("includeHeaders", "true").load(topic.address)
    assert penstock.spark.drop_repeated(theirs).count() == 30


def keys(topic: TestTopic) -> list[int]:
    """Keys that readers of committed records see, in order."""
    found: list[int] = []
    with RangeReader(topic.node, isolation_level="read_committed") as reader:
        partitions = [each.partition for each in reader.topics([topic.name])[topic.name].partitions]
        for partition, end in reader.end_offsets(partitions).items():
            for messages in reader.read(LogRange(topic.name, partition.id, 0, end), columns=("key",)):
                found += map(int, messages.to_arrow(("key",)).column("key").to_pylist())
    return sorted(found)


def test_named_write_is_stored_once_however_often_it_is_run(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    options = {"deliveryGuarantee": "exactly-once", "txnAppId": topic.name}
    for version in (3, 3, 4, 3):
        write = numbered(spark, 10, tasks=3).write.format("penstock").mode("append").options(**options)
        write.option("txnVersion", version).save(topic.address)
    assert keys(topic) == sorted([*range(10)] * 2)


def test_unnamed_write_is_shown_when_all_of_it_is_there(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    exactly_once = {"deliveryGuarantee": "exactly-once"}
    good = numbered(spark, 10, tasks=3)
    good.write.format("penstock").mode("append").options(**exactly_once).save(topic.address)
    broken = good.selectExpr("key", "if(key = 7, raise_error('broken row'), value) value")
    with pytest.raises(Exception, match="broken row"):
        broken.write.format("penstock").mode("append").options(**exactly_once).save(topic.address)
    assert keys(topic) == list(range(10))


def test_task_that_is_tried_again_writes_once(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    from tests.spark.failing import FailingSource

    spark.dataSource.register(FailingSource)
    target = TestTopic(topic.node, f"{topic.name}-copy")
    topic.create(1)
    target.create(2)
    topic.fill({0: 30_000})
    (tmp_path / "read").touch()
    frame = stream(spark, topic, source="failing", wires=str(tmp_path), startingOffsets="earliest")
    query = (
        frame.selectExpr("cast(offset as string) key", "value")
        .writeStream.format("penstock")
        .options(deliveryGuarantee="exactly-once", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(target.address)
    )
    query.awaitTermination()
    assert not (tmp_path / "read").exists()
    assert keys(target) == list(range(30_000))
