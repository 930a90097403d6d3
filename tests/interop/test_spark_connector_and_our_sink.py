"""The same rows written through Spark's own Kafka connector and through ours are the same records in a real Kafka."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Admin, RangeReader
from penstock.interfaces import NewTopic
from penstock.model import LogRange
from tests.interop.peers.fixtures import KafkaBroker
from tools.peers import kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.interop

PARTITIONS = 3
HEADERS = "array(struct('a' as key, cast('1' as binary) as value), struct('b' as key, cast(null as binary) as value))"
FRAMES = {
    "keys decide the partition": "select cast(id as string) key, concat('v-', id) value from range(200)",
    "bytes": "select cast(cast(id as string) as binary) key, cast(concat('ü', id) as binary) value from range(50)",
    "a partition of one's own": "select concat('k', id) key, 'v' value, cast(id % 3 as int) partition from range(50)",
    "some rows say which partition": (
        "select concat('k', id) key, 'v' value, if(id % 2 = 0, 2, null) partition from range(50)"
    ),
    "tombstones": "select concat('k', id) key, cast(if(id % 2 = 0, null, 'v') as string) value from range(50)",
    "headers": f"select concat('k', id) key, 'v' value, {HEADERS} headers from range(20)",
    "some rows have headers": (
        f"select concat('k', id) key, 'v' value, if(id % 2 = 0, {HEADERS}, null) headers from range(20)"
    ),
    "columns that are not written": "select concat('k', id) key, 'v' value, id, current_date() day from range(20)",
    "no keys": "select concat('v-', id) value from range(100)",
    "empty": "select 'k' key, 'v' value where false",
}  # fmt: skip
REFUSED = {
    "no value": ("select 'k' key", {}),
    "a value that is no text": ("select 1 value", {}),
    "a key that is no text": ("select 1 key, 'v' value", {}),
    "a partition that is no int": ("select 'v' value, 'x' partition", {}),
    "a partition that is not there": ("select 'v' value, 99 partition", {"kafka.max.block.ms": "2000"}),
    "headers of another shape": ("select 'v' value, array('x') headers", {}),
    "a serializer": ("select 'v' value", {"kafka.value.serializer": "org.example.Mine"}),
}


@pytest.fixture(scope="module")
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker(kafka.NEWEST).bootstrap


def new_topic(servers: str) -> str:
    name = f"sink-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{servers}") as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    return name


def records(servers: str, topic: str) -> list[tuple[Any, ...]]:
    """(partition where it is not the client's choice, key, value, headers) of all records, in a fixed order."""
    found = []
    with RangeReader(f"kafka://{servers}") as reader:
        partitions = [each.partition for each in reader.topics([topic])[topic].partitions]
        for partition, end in reader.end_offsets(partitions).items():
            for messages in reader.read(LogRange(topic, partition.id, 0, end)):
                for row in messages.to_arrow(("key", "value", "headers")).to_pylist():
                    place = None if row["key"] is None else partition.id
                    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
                    found.append((place, row["key"], row["value"], headers))
    return sorted(found, key=repr)


def write(frame: DataFrame, connector: str, servers: str, topic: str, **options: str) -> None:
    writer = frame.write.format(connector).mode("append").option("kafka.bootstrap.servers", servers)
    writer.option("topic", topic).options(**options).save()


@pytest.mark.parametrize("name", FRAMES)
def test_same_records(spark: SparkSession, servers: str, name: str) -> None:
    written = {}
    for connector in ("kafka", "penstock"):
        topic = new_topic(servers)
        write(spark.sql(FRAMES[name]), connector, servers, topic)
        written[connector] = records(servers, topic)
    assert written["penstock"] == written["kafka"]
    assert bool(written["kafka"]) == (name != "empty")


def test_option_wins_over_the_column_topic(spark: SparkSession, servers: str) -> None:
    for connector in ("kafka", "penstock"):
        by_option, by_column = new_topic(servers), new_topic(servers)
        frame = spark.sql(f"select 'v' value, '{by_column}' topic")
        write(frame, connector, servers, by_option)
        frame.write.format(connector).mode("append").option("kafka.bootstrap.servers", servers).save()
        assert [len(records(servers, topic)) for topic in (by_option, by_column)] == [1, 1]


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(spark: SparkSession, servers: str, name: str) -> None:
    query, options = REFUSED[name]
    for connector in ("kafka", "penstock"):
        topic = new_topic(servers)
        with pytest.raises(Exception, match=r"(?s)."):  # each in its own words
            write(spark.sql(query), connector, servers, topic, **options)
        assert records(servers, topic) == []


def test_both_refuse_rows_without_a_topic(spark: SparkSession, servers: str) -> None:
    for connector in ("kafka", "penstock"):
        for query in ("select 'v' value", "select 'v' value, cast(null as string) topic"):
            writer = spark.sql(query).write.format(connector).mode("append")
            with pytest.raises(Exception, match=r"(?is)topic"):
                writer.option("kafka.bootstrap.servers", servers).save()


def test_stream_writes_the_same_records(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    origin = new_topic(servers)
    write(spark.sql(FRAMES["headers"]), "kafka", servers, origin)
    written = {}
    for connector in ("kafka", "penstock"):
        target = new_topic(servers)
        source = spark.readStream.format(connector).option("kafka.bootstrap.servers", servers)
        frame = source.options(subscribe=origin, startingOffsets="earliest", includeHeaders="true").load()
        writer = frame.drop("topic").writeStream.format(connector).option("kafka.bootstrap.servers", servers)
        writer = writer.options(topic=target, checkpointLocation=str(tmp_path / connector))
        writer.trigger(availableNow=True).start().awaitTermination()
        written[connector] = records(servers, target)
    assert written["penstock"] == written["kafka"] == records(servers, origin)
