"""Batch reads through real Spark: columns, types, ranges, options, and errors where a user sees them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.client import Producer
from penstock.records.arrow import schema
from penstock.spark._columns import KNOWN
from penstock.spark._options import decoded_ddl
from tests.spark.logs import START_MS, TestTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}


def read(spark: SparkSession, topic: TestTopic, **options: Any) -> DataFrame:
    return spark.read.format("penstock").options(**options).load(topic.address)


def test_all_columns_of_sparks_kafka_source(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    topic.fill({0: 3, 1: 2})
    frame = read(spark, topic)
    assert dict(frame.dtypes) == COLUMNS
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset, bytes(row.key)) for row in rows] == [
        (0, 0, b"0-0"),
        (0, 1, b"0-1"),
        (0, 2, b"0-2"),
        (1, 0, b"1-0"),
        (1, 1, b"1-1"),
    ]
    assert bytes(rows[1].value) == b"1".ljust(20, b".")
    assert {(row.topic, row.timestampType) for row in rows} == {(topic.name, 0)}
    instant = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(milliseconds=1)
    assert frame.where("offset = 1").selectExpr("unix_millis(timestamp) ms").first() == (instant.timestamp() * 1000,)


@pytest.mark.parametrize("columns", [tuple(KNOWN), *((name,) for name in KNOWN)])
def test_arrow_types_are_exactly_those_spark_expects(spark: SparkSession, columns: tuple[str, ...]) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    expected = to_arrow_schema(spark.createDataFrame([], decoded_ddl(columns, None)).schema, timezone="UTC")
    assert schema(columns).equals(expected)


def test_nulls_empty_values_and_headers_survive(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(1)
    headers = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    rows = pa.table(
        {
            "key": pa.array([None, b"", b"\xff"], pa.binary()),
            "value": pa.array([b"", None, b"x" * 100_000], pa.binary()),
            "headers": pa.array([None, [], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]], headers),
        }
    )
    with Producer(topic.node) as producer:
        producer.send_batch(topic.name, rows).result()
    frame = read(spark, topic, includeHeaders="true")
    assert dict(frame.dtypes)["headers"] == "array<struct<key:string,value:binary>>"
    found = [(row.key, row.value, row.headers) for row in frame.orderBy("offset").collect()]
    assert [key and bytes(key) for key, _, _ in found] == [None, b"", b"\xff"]
    assert [value if value is None else len(value) for _, value, _ in found] == [0, None, 100_000]
    assert [[(pair.key, pair.value and bytes(pair.value)) for pair in pairs or []] for _, _, pairs in found] == [
        [],
        [],
        [("a", b"1"), ("a", None)],
    ]


def test_one_header_as_a_column(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(1)
    with Producer(topic.node) as producer:
        for number in range(3):
            headers = [("trace-id", b"%d" % number), ("other", b"x")] if number else None
            producer.send(topic.name, b"v", headers=headers).result()
    frame = read(spark, topic, columns="offset,header:trace-id")
    assert frame.dtypes == [("offset", "bigint"), ("trace-id", "binary")]
    found = {row["offset"]: row["trace-id"] and bytes(row["trace-id"]) for row in frame.collect()}
    assert found == {0: None, 1: b"1", 2: b"2"}


def test_large_partition_is_read_once_by_several_tasks(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    topic.fill({0: 70_000, 1: 10})
    frame = read(spark, topic, minPartitions="5", columns="partition,offset")
    tasks = frame.selectExpr("spark_partition_id() task", "partition", "offset").toArrow().to_pydict()
    assert len(set(tasks["task"])) == 5
    assert sorted(zip(tasks["partition"], tasks["offset"], strict=True)) == [
        *((0, offset) for offset in range(70_000)),
        *((1, offset) for offset in range(10)),
    ]


def test_small_partitions_share_a_task(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(16)
    topic.fill(dict.fromkeys(range(16), 5))
    frame = read(spark, topic)
    assert frame.rdd.getNumPartitions() == 1
    assert Counter(row.partition for row in frame.collect()) == dict.fromkeys(range(16), 5)


@pytest.mark.parametrize("columns", ["value", "offset,key", "topic", "partition,topic"])
def test_chosen_columns_come_in_their_order(spark: SparkSession, topic: TestTopic, columns: str) -> None:
    topic.create(1)
    topic.fill({0: 4})
    frame = read(spark, topic, columns=columns)
    assert frame.columns == columns.split(",")
    assert frame.count() == 4


def test_given_offsets_are_read_exactly(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    topic.fill({0: 100, 1: 100})
    frame = read(
        spark,
        topic,
        startingOffsets=f'{{"{topic.name}":{{"0":10,"1":-2}}}}',
        endingOffsets=f'{{"{topic.name}":{{"0":12,"1":1}}}}',
    )
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [(0, 10), (0, 11), (1, 0)]


def test_options_of_a_kafka_job_are_enough(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    topic.fill({0: 5, 1: 7})
    servers = topic.node.removeprefix("kafka://")
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", servers)
    assert reader.option("subscribe", topic.name).load().count() == 12


def test_assigned_partitions_only(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(3)
    topic.fill({0: 5, 1: 7, 2: 9})
    reader = spark.read.format("penstock").option("assign", f'{{"{topic.name}":[0,2]}}')
    rows = reader.load(topic.node).select("partition").collect()
    assert Counter(row.partition for row in rows) == {0: 5, 2: 9}


def test_empty_topic_is_an_empty_frame(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(4)
    assert read(spark, topic).collect() == []


def test_stopping_early_leaves_the_worker_usable(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 60_000})
    for _ in range(3):
        assert len(read(spark, topic).limit(5).collect()) == 5
        assert read(spark, topic).count() == 60_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOfsets": "earliest"}, "Did you mean startingOffsets"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger is '-1'"),
        ({"kafka.max.poll.record": "5"}, "max_poll_records"),
        ({"startingOffsets": "latest", "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger is 9"),
    ],
)
def test_mistaken_option_is_told_at_load(
    spark: SparkSession, topic: TestTopic, options: dict[str, str], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        read(spark, topic, **options)


def test_missing_topic_is_told(spark: SparkSession, topic: TestTopic) -> None:
    with pytest.raises(Exception, match=f"topic {topic.name} does not exist"):
        read(spark, topic, **{"kafka.allow.auto.create.topics": "false"}).count()


def test_other_schema_is_refused(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(1)
    with pytest.raises(Exception, match="columns"):
        spark.read.format("penstock").schema("value string").load(topic.address).count()


def test_format_is_found_without_registration(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 3})
    other = spark.newSession()  # has nothing registered
    assert other.read.format("penstock").load(topic.address).count() == 3
    other.sql(
        f"create temporary view found_{topic.name.replace('-', '_')} using penstock options (path '{topic.address}')"
    )
    (count,) = other.sql(f"select count(*) from found_{topic.name.replace('-', '_')}").first() or (0,)
    assert count == 3


@pytest.mark.parametrize("on", ["true", "false"])
def test_filters_are_handed_over_where_spark_does_that(spark: SparkSession, topic: TestTopic, on: str) -> None:
    topic.create(3)
    topic.fill({0: 100, 1: 100, 2: 100})
    other = spark.newSession()
    other.conf.set("spark.sql.python.filterPushdown.enabled", on)
    since = datetime.fromtimestamp((START_MS + 30) / 1000, UTC)
    frame = read(other, topic, minPartitions="300").where("partition in (0, 2) and offset < 50")
    frame = frame.where(frame.timestamp >= since)
    found = sorted((row.partition, row.offset) for row in frame.collect())
    assert found == [(partition, offset) for partition in (0, 2) for offset in range(30, 50)]
    assert frame.rdd.getNumPartitions() == (40 if on == "true" else 300)


def test_times_say_what_is_read(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(2)
    topic.fill({0: 100, 1: 50})
    since = datetime.fromtimestamp((START_MS + 40) / 1000, UTC)
    frame = read(spark, topic, startingTimestamp=since, endingTimestamp=START_MS + 60)
    found = sorted((row.partition, row.offset) for row in frame.collect())
    assert found == [*((0, offset) for offset in range(40, 60)), *((1, offset) for offset in range(40, 50))]
