"""What can happen to a real topic between planning and reading: readers called as Spark calls them, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.client import Admin, Producer
from penstock.spark._loss import DataLoss
from penstock.spark._options import parse_options
from penstock.spark._reading import BatchReader, StreamReader
from tests.eventually import comes_to
from tests.spark.logs import TestTopic
from tools.peers import kafka

pytestmark = pytest.mark.interop


@pytest.fixture
def topic(any_kafka: kafka.Broker, request: pytest.FixtureRequest) -> TestTopic:
    return TestTopic(f"kafka://{any_kafka.bootstrap}", request.node.originalname.replace("_", "-"))


def offsets(reader: Any, tasks: list[Any]) -> list[int]:
    return [offset for task in tasks for batch in reader.read(task) for offset in batch["offset"].to_pylist()]


def batch_reader(topic: TestTopic, **options: str) -> BatchReader:
    return BatchReader(parse_options({"path": topic.address, "columns": "offset", "minPartitions": "1", **options}))


def test_records_deleted_after_planning_are_told_exactly(topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 100})
    strict, lenient = batch_reader(topic), batch_reader(topic, failOnDataLoss="warn")
    tasks = strict.partitions()
    topic.delete_before({0: 30})
    with pytest.raises(DataLoss, match="30 offsets up to 30 are gone: the log now starts at 30"):
        offsets(strict, tasks)
    assert offsets(lenient, tasks) == list(range(30, 100))


def test_topic_deleted_after_planning_is_told(topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 10})
    quickly = {"kafkaConsumer.pollTimeoutMs": "2000"}
    strict, lenient = batch_reader(topic, **quickly), batch_reader(topic, failOnDataLoss="warn", **quickly)
    tasks = strict.partitions()
    topic.delete()
    with pytest.raises(DataLoss, match="10 offsets; the partition is gone"):
        offsets(strict, tasks)
    assert offsets(lenient, tasks) == []


def test_topic_made_anew_between_batches_is_told(topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 10})
    options = {"path": topic.address, "startingOffsets": "earliest"}
    first = StreamReader(parse_options(options))
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    first.stop()
    topic.delete()
    again = StreamReader(parse_options({**options, "fetchOffset.numRetries": "0"}))
    with Admin(topic.node, api_timeout_ms=30_000) as admin:
        while topic.name in admin.topics():
            pass  # deleting goes on after it was acknowledged
    topic.create(1)
    topic.fill({0: 25})
    try:
        with pytest.raises(DataLoss, match="the topic was deleted and recreated"):
            again.latestOffset(end, ReadAllAvailable())
    finally:
        again.stop()


def test_gaps_of_transactions_are_no_loss(topic: TestTopic) -> None:
    topic.create(1)
    with Producer(topic.node, transactional_id=topic.name) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic.name, b"%d" % number)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    comes_to(topic.ends, {0: 12})  # a record and a marker each
    for level, expected in (("read_committed", [0, 4, 8]), ("read_uncommitted", list(range(0, 12, 2)))):
        reader = batch_reader(topic, minPartitions="12", **{"kafka.isolation.level": level})
        tasks = reader.partitions()
        assert len(tasks) == 12
        assert offsets(reader, tasks) == expected
