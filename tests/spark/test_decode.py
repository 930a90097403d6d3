"""JSON decoded by the source: typed columns in Spark, bad records by mode, dead letters in a topic."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Producer
from tests.spark.logs import TestTopic
from tests.spark.test_sink import stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = (
    "id bigint, price decimal(10,2), at timestamp, day date, tags array<string>, more struct<x: int>, m map<string,int>"
)
GOOD = (
    b'{"id":%d,"price":1.25,"at":"2024-01-02T03:04:05Z","day":"2024-01-02",'
    b'"tags":["a",null],"more":{"x":1},"m":{"k":2}}'
)


def fill(topic: TestTopic, count: int, bad: dict[int, bytes]) -> None:
    topic.create(1)
    with Producer(topic.node) as producer:
        for number in range(count):
            producer.send(topic.name, bad.get(number, GOOD % number), key=b"%d" % number)


def read(spark: SparkSession, topic: TestTopic, **options: Any) -> DataFrame:
    source = spark.read.format("penstock").option("valueFormat", "json").option("valueSchema", SCHEMA)
    return source.options(**options).load(topic.address)


def test_values_become_typed_columns(spark: SparkSession, topic: TestTopic) -> None:
    fill(topic, 100, {})
    frame = read(spark, topic).select("value.*", "offset")
    assert frame.schema.simpleString() == (
        "struct<id:bigint,price:decimal(10,2),at:timestamp,day:date,tags:array<string>,more:struct<x:int>,"
        "m:map<string,int>,offset:bigint>"
    )
    row = frame.where("id = 7").collect()[0]
    assert (row.price, str(row.day), row.tags, row.more.x, row.m, row.offset) == (
        Decimal("1.25"),
        "2024-01-02",
        ["a", None],
        1,
        {"k": 2},
        7,
    )
    (count, total) = (
        frame.where("at = timestamp '2024-01-02T03:04:05Z'").selectExpr("count(*)", "sum(id)").first() or ()
    )
    assert (count, total) == (100, 4950)


def test_bad_records_by_mode(spark: SparkSession, topic: TestTopic) -> None:
    fill(topic, 50, {7: b"?", 30: b'{"id":"x"}'})
    with pytest.raises(Exception, match=rf"it is not JSON.*topic {topic.name}, partition 0, offset 7"):
        read(spark, topic).count()
    told = read(spark, topic, mode="PERMISSIVE").where("_error is not null").orderBy("offset").collect()
    assert [(row.offset, bytes(row._raw), row.value) for row in told] == [(7, b"?", None), (30, b'{"id":"x"}', None)]
    assert read(spark, topic, mode="DROP").count() == 48


def test_stream_puts_dead_letters_into_a_topic(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    fill(topic, 50, {7: b"?", 30: b'{"id":"x"}'})
    dead = TestTopic(topic.node, f"{topic.name}-dead")
    dead.create(1)
    query = (
        spark.readStream.format("penstock")
        .options(valueFormat="json", valueSchema=SCHEMA, mode="DEADLETTER", deadLetter=dead.name)
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="20")
        .load(topic.address)
        .select("value.id")
        .writeStream.format("memory")
        .queryName(f"good_{topic.name.replace('-', '_')}")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    good = spark.table(f"good_{topic.name.replace('-', '_')}").collect()
    assert sorted(row.id for row in good) == [number for number in range(50) if number not in (7, 30)]
    letters = stored(dead, ("key", "value", "headers"))
    assert [(letter["key"], letter["value"]) for letter in letters] == [(b"7", b"?"), (b"30", b'{"id":"x"}')]
    places = {header["key"]: header["value"] for header in letters[1]["headers"]}
    assert places == {
        "penstock.dead.error": b"id is string, expected number",
        "penstock.dead.topic": topic.name.encode(),
        "penstock.dead.partition": b"0",
        "penstock.dead.offset": b"30",
    }
