"""Spark's source over every log, without Spark: readers called as Spark calls them, with JSON and pickles between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.client import Admin, Producer
from penstock.errors import UsageError
from penstock.spark._options import parse_options
from penstock.spark._reading import BatchReader, StreamReader
from tests.conformance.abilities import Ability, needs
from tests.conformance.conftest import Log

PICKLER = CloudPickleSerializer()


def write(log: Log, topic: str, first: int, count: int) -> None:
    with Producer(log.writing) as producer:
        values = pa.array([b"%d" % number for number in range(first, first + count)], pa.binary())
        times = pa.array([datetime.now(UTC)] * count, pa.timestamp("ms", "UTC"))
        producer.send_batch(topic, pa.table({"key": values, "value": values, "timestamp": times})).result()


def rows(reader: DataSourceReader | DataSourceStreamReader, tasks: Iterable[InputPartition]) -> list[dict[str, Any]]:
    """What the tasks read, each in a copy of the reader, as in Spark's workers."""
    found: list[dict[str, Any]] = []
    for task in tasks:
        copy, travelled = PICKLER.loads(PICKLER.dumps((reader, task)))
        for batch in copy.read(travelled):
            found += batch.to_pylist()
    return found


def values(found: Iterable[dict[str, Any]]) -> Counter[bytes]:
    return Counter(row["value"] for row in found)


def wanted(first: int, end: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(first, end))


class Run:
    """One run of a query: what Spark's engine does with a stream reader."""

    def __init__(self, address: str, **options: str) -> None:
        self.reader = StreamReader(parse_options({"path": address, **options}))
        self.limit: ReadLimit = self.reader.getDefaultReadLimit()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *ended: object) -> None:
        self.reader.stop()

    def begin(self) -> Any:
        return as_stored(self.reader.initialOffset())

    def drain(self, start: Any, look: Callable[[], None] = lambda: None) -> tuple[Any, list[list[dict[str, Any]]]]:
        """(where it ended, the rows of each batch); ``look`` is called after each plan."""
        batches = []
        while (end := as_stored(self.reader.latestOffset(start, self.limit))) != start:
            look()
            batches.append(rows(self.reader, self.reader.partitions(start, end)))
            start = end
        return start, batches


def as_stored(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def test_batch_reads_every_record_once_with_its_columns(log: Log) -> None:
    topic = log.topic(3)
    write(log, topic, 0, 500)
    reader = BatchReader(parse_options({"path": log.at(topic), "minPartitions": "5"}))
    found = rows(reader, reader.partitions())
    assert values(found) == wanted(0, 500)
    assert {row["topic"] for row in found} == {topic}
    assert all(row["key"] == row["value"] and row["timestamp"] is not None for row in found)


@needs(Ability.COUNTS_RECORDS)
def test_batch_tells_where_each_record_is(log: Log) -> None:
    topic = log.topic(3)
    write(log, topic, 0, 500)
    reader = BatchReader(parse_options({"path": log.at(topic), "minPartitions": "5"}))
    told = Counter((row["partition"], row["offset"]) for row in rows(reader, reader.partitions()))
    # Nodes number their partitions alike, and a row has no word for the node.
    nodes = len({partition.node for partition in log.partitions(topic)})
    assert max(told.values()) <= nodes
    assert sum(told.values()) == 500


def test_batch_of_some_columns_only(log: Log) -> None:
    topic = log.topic()
    write(log, topic, 0, 5)
    reader = BatchReader(parse_options({"path": log.at(topic), "columns": "value,partition"}))
    found = rows(reader, reader.partitions())
    assert [list(row) for row in found] == [["value", "partition"]] * 5


def test_stream_reads_every_record_once_across_limits_growth_and_restarts(log: Log) -> None:
    topic = log.topic(2)
    write(log, topic, 0, 300)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "70", "minPartitions": "2"}
    with Run(log.at(topic), **options) as run:
        end, batches = run.drain(run.begin())
    assert len(batches) > 1
    with Admin(log.address) as admin:
        admin.add_partitions(topic, 4)
    write(log, topic, 300, 200)
    with Run(log.at(topic), **options) as run:
        _, more = run.drain(end)
    assert values(row for batch in [*batches, *more] for row in batch) == wanted(0, 500)


def test_available_now_ends_where_the_log_ended(log: Log) -> None:
    topic = log.topic(2)
    write(log, topic, 0, 100)
    with Run(log.at(topic), startingOffsets="earliest", maxOffsetsPerTrigger="40") as run:
        run.reader.prepareForTriggerAvailableNow()
        _, batches = run.drain(run.begin(), lambda: write(log, topic, 100, 10))
    assert values(row for batch in batches for row in batch) == wanted(0, 100)


def test_latest_is_where_the_log_ends(log: Log) -> None:
    topic = log.topic(2)
    write(log, topic, 0, 20)
    with Run(log.at(topic)) as run:
        start = run.begin()
        write(log, topic, 20, 20)
        _, batches = run.drain(start)
    assert values(row for batch in batches for row in batch) == wanted(20, 40)


def test_groups_offsets_follow_the_stream_and_are_a_start(log: Log) -> None:
    topic = log.topic(2)
    write(log, topic, 0, 50)
    group = f"spark-{topic}"
    with Run(log.at(topic), startingOffsets="earliest", group=group, commitOffsets="true") as run:
        run.drain(run.begin())
    with Admin(log.address) as admin:
        assert {lag.offsets for lag in admin.lag(group).values()} == {0}
    write(log, topic, 50, 25)
    with Run(log.at(topic), startingOffsets="committed:earliest", group=group) as run:
        _, batches = run.drain(run.begin())
    assert values(row for batch in batches for row in batch) == wanted(50, 75)


def test_lag_is_reported(log: Log) -> None:
    topic = log.topic()
    write(log, topic, 0, 100)
    with Run(log.at(topic), startingOffsets="earliest", maxOffsetsPerTrigger="30") as run:
        run.reader.latestOffset(run.begin(), run.limit)
        told: Any = run.reader.reportLatestOffset()
    assert sum(end - told["from"][topic][key] for key, end in told["to"][topic].items()) > 0
    seconds = told["behind"]["seconds"][topic].values()
    assert seconds
    assert all(0 <= each < 600 for each in seconds)


def test_pattern_finds_topics(log: Log) -> None:
    one, two = log.topic(), log.topic()
    write(log, one, 0, 10)
    write(log, two, 10, 10)
    with Run(log.address, subscribePattern=f"({one}|{two})", startingOffsets="earliest") as run:
        _, batches = run.drain(run.begin())
    assert values(row for batch in batches for row in batch) == wanted(0, 20)


def test_missing_topic_is_told(log: Log) -> None:
    with (
        Run(log.at(f"{log.topic()}-not")) as run,
        pytest.raises(UsageError, match="does not exist"),
    ):
        run.begin()
