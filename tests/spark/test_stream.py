"""Streams through real Spark: batches, offsets in the checkpoint, admission, the group's offsets, new partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Admin
from tests.spark.logs import START_MS, TestTopic
from tests.spark.queries import Collected, offsets_of, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_available_now_reads_everything_once_and_remembers(
    spark: SparkSession, topic: TestTopic, tmp_path: Path
) -> None:
    topic.create(3)
    topic.fill({0: 10, 1: 0, 2: 5})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest")
    assert len(run_available(source, sink, tmp_path)) == 1
    topic.fill({0: 2, 1: 1})
    run_available(source, sink, tmp_path)
    assert run_available(source, sink, tmp_path) == []
    assert sink.offsets() == {0: list(range(12)), 1: [0], 2: list(range(5))}
    assert sorted(sink.batches) == [0, 1]


def test_checkpoint_holds_canonical_offsets(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(11)
    topic.fill({10: 2, 9: 1})
    (progress,) = run_available(stream(spark, topic, startingOffsets="earliest"), Collected(), tmp_path)
    ends = {str(number): {9: 1, 10: 2}.get(number, 0) for number in range(11)}
    (stored,) = offsets_of(tmp_path, 0)
    with Admin(topic.node) as admin:
        there = admin.topics([topic.name])[topic.name]
    assert there.id is not None
    ids = {topic.name: there.id.hex()}
    epochs = {topic.name: {str(each.partition.id): each.leader_epoch for each in there.partitions}}
    assert json.dumps(json.loads(stored)) == json.dumps(
        {"v": 1, "from": {topic.name: dict.fromkeys(ends, 0)}, "to": {topic.name: ends}, "ids": ids, "epochs": epochs}
    )
    assert progress["sources"][0]["endOffset"] == json.loads(stored)
    assert progress["sources"][0]["latestOffset"]["to"] == {topic.name: ends}


def test_limit_is_kept_by_every_batch(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(3)
    topic.fill({0: 90, 1: 9, 2: 1})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    progress = run_available(source, sink, tmp_path)
    assert [each["numInputRows"] for each in progress] == [40, 40, 20]
    assert sink.batches[0].keys() == {0, 1, 2}
    assert sink.offsets() == {0: list(range(90)), 1: list(range(9)), 2: [0]}


def test_latest_is_the_default_start(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(1)
    topic.fill({0: 5})
    sink = Collected()
    assert run_available(stream(spark, topic), sink, tmp_path) == []
    assert sink.offsets() == {}


def test_group_is_committed_to_the_end_of_the_last_batch(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 10, 1: 20})
    source = stream(
        spark, topic, startingOffsets="earliest", group=topic.name, commitOffsets="true", maxOffsetsPerTrigger="7"
    )
    run_available(source, Collected(), tmp_path)
    assert topic.committed(topic.name) == {0: 10, 1: 20}


def test_partition_added_between_runs_is_read_from_its_start(
    spark: SparkSession, topic: TestTopic, tmp_path: Path
) -> None:
    topic.create(1)
    topic.fill({0: 5})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest")
    run_available(source, sink, tmp_path)
    topic.grow(3)
    topic.fill({0: 1, 2: 4})
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {0: list(range(6)), 2: list(range(4))}


def test_idle_query_makes_no_batches_and_sees_what_comes(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 5})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest")
    query = (
        source.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        topic.fill({1: 3})
        query.processAllAvailable()
        topic.fill({0: 1})
        query.processAllAvailable()
    finally:
        query.stop()
    assert sink.offsets() == {0: list(range(6)), 1: list(range(3))}
    assert sorted(sink.batches) == [0, 1, 2]


def test_aged_out_records_end_the_query_or_are_skipped(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(1)
    topic.fill({0: 10})
    sink = Collected()
    options: dict[str, Any] = {"startingOffsets": "earliest"}
    run_available(stream(spark, topic, **options), sink, tmp_path)
    topic.fill({0: 10})
    topic.delete_before({0: 15})
    with pytest.raises(Exception, match="5 offsets were deleted"):
        run_available(stream(spark, topic, **options), sink, tmp_path)
    run_available(stream(spark, topic, **options, failOnDataLoss="false"), sink, tmp_path)
    assert sink.offsets() == {0: [*range(10), *range(15, 20)]}


def test_bounded_stream_ends_where_it_was_told(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 30, 1: 5})
    sink = Collected()
    source = stream(
        spark, topic, startingOffsets="earliest", endingTimestamp=str(START_MS + 20), maxOffsetsPerTrigger="8"
    )
    run_available(source, sink, tmp_path)
    topic.fill({1: 30})
    run_available(source, sink, tmp_path)
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {0: list(range(20)), 1: list(range(20))}


def test_pattern_finds_topics_that_come_later(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    sink = Collected()
    pattern = {"subscribePattern": f"{topic.name}.*", "startingOffsets": "earliest"}
    source = spark.readStream.format("penstock").options(**pattern).load(topic.node)
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {}
    topic.create(1)
    topic.fill({0: 3})
    run_available(source, sink, tmp_path)
    other = TestTopic(topic.node, topic.name + "-more")
    other.create(2)
    other.fill({1: 2})
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {0: [0, 1, 2], 1: [0, 1]}


def test_committed_offsets_of_a_group_are_a_start(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 10, 1: 20})
    first = {"startingOffsets": "earliest", "group": topic.name, "commitOffsets": "true"}
    run_available(stream(spark, topic, **first), Collected(), tmp_path / "first")
    topic.fill({0: 2, 1: 1})
    sink = Collected()
    again = {"startingOffsets": "committed", "group": topic.name}
    run_available(stream(spark, topic, **again), sink, tmp_path / "second")
    assert sink.offsets() == {0: [10, 11], 1: [20]}


def test_batches_have_about_so_many_bytes(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 3_000, 1: 1_000}, value_bytes=1_000)
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest", maxBytesPerTrigger="1m")
    progress = run_available(source, sink, tmp_path)
    assert [900 < each["numInputRows"] < 1_100 for each in progress[:-1]] == [True] * 3
    assert sink.offsets() == {0: list(range(3_000)), 1: list(range(1_000))}


@pytest.mark.parametrize(
    "limits",
    [
        {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "1h"},
        {"targetBatchDuration": "10s"},
        {"maxBytesPerTrigger": "1g"},
        {"maxOffsetsPerTrigger": "100", "minOffsetsPerTrigger": "50", "targetBatchDuration": "5s"},
    ],
    ids="+".join,
)
def test_limits_that_spark_has_no_word_for(
    spark: SparkSession, topic: TestTopic, tmp_path: Path, limits: dict[str, str]
) -> None:
    topic.create(1)
    topic.fill({0: 30})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest", **limits)
    run_available(source, sink, tmp_path)
    topic.fill({0: 3})
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {0: list(range(33))}


def test_few_offsets_wait_for_more(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(1)
    topic.fill({0: 5})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    query = (
        source.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="20 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        topic.fill({0: 9})
        query.processAllAvailable()
        assert sink.offsets() == {0: list(range(5))}
        topic.fill({0: 1})
        query.processAllAvailable()
    finally:
        query.stop()
    assert sink.offsets() == {0: list(range(15))}
    assert sorted(sink.batches) == [0, 1]


def test_all_at_once_if_spark_says_so(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 30, 1: 30})
    sink = Collected()
    source = stream(spark, topic, startingOffsets="earliest", maxOffsetsPerTrigger="7", minOffsetsPerTrigger="5")
    writer = source.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(once=True).start().awaitTermination()
    assert sorted(sink.batches) == [0]
    assert sink.offsets() == {0: list(range(30)), 1: list(range(30))}


def test_lag_is_in_the_progress(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(2)
    topic.fill({0: 50, 1: 5})
    source = stream(spark, topic, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    first, last = run_available(source, Collected(), tmp_path)
    behind = first["sources"][0]["latestOffset"]["behind"]
    assert behind["seconds"][topic.name]["0"] > 1_000  # records are of 2023
    assert behind["bytes"] > 0
    assert last["sources"][0]["latestOffset"]["behind"]["seconds"] == {topic.name: {"0": 0.0, "1": 0.0}}


def test_topic_that_was_made_anew_is_noticed(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(1)
    topic.fill({0: 5})
    sink = Collected()
    run_available(stream(spark, topic, startingOffsets="earliest"), sink, tmp_path)
    topic.delete()
    topic.create(1)
    topic.fill({0: 9})
    with pytest.raises(Exception, match="the topic was deleted and recreated"):
        run_available(stream(spark, topic), sink, tmp_path)
    run_available(stream(spark, topic, failOnDataLoss="warn"), sink, tmp_path)
    assert sink.offsets() == {0: sorted([*range(5), *range(9)])}


def test_checkpoint_of_another_version_is_refused(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    topic.create(1)
    topic.fill({0: 3})
    source = stream(spark, topic, startingOffsets="earliest")
    run_available(source, Collected(), tmp_path)
    for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        file.write_text(file.read_text().replace('"v": 1', '"v": 2').replace('"v":1', '"v":2'))
    topic.fill({0: 1})
    with pytest.raises(Exception, match="offsets of version 2"):
        run_available(source, Collected(), tmp_path)
