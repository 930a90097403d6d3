"""An unclean election, which loses what was acknowledged: what a group, a transaction and a Spark query are told of it.

100 records are on both replicas, 500 on one only; it dies, the other one is made leader and gets 800 new ones.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client import Producer
from penstock.errors import PenstockError
from tests.eventually import comes_to
from tests.interop.cluster.members import Member, librdkafka, ours, reading
from tests.interop.cluster.traffic import stored
from tools.peers.kafka_cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.long]

BOTH, LOST, NEW = range(100), range(100, 600), range(600, 1_400)
WITHIN_S = 120.0


def write(cluster: Cluster, topic: str, numbers: range) -> None:
    with Producer(cluster.address) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number)
        producer.flush()


def one_of_two_falls_behind(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, BOTH)
    cluster.await_in_sync(topic)  # one that was late for a while has caught up
    cluster.kill(2)
    cluster.await_in_sync(topic, 0, [1])
    write(cluster, topic, LOST)


def it_is_made_leader(cluster: Cluster, topic: str) -> None:
    cluster.kill(1)
    cluster.start(2)
    cluster.elect(topic, 0, unclean=True)


@contextmanager
def topic_of_two(cluster: Cluster) -> Iterator[str]:
    """On brokers 1 and 2, which are there again afterwards."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, replicas=[(1, 2)])
    try:
        yield topic
    finally:
        cluster.kill(1, 2)
        cluster.start(1, 2)
        cluster.await_in_sync(topic)


@pytest.mark.parametrize("member", [ours, librdkafka])
def test_a_group_skips_nothing_that_is_new(
    kafka_cluster: Cluster, caplog: pytest.LogCaptureFixture, member: Member
) -> None:
    """librdkafka says nothing to its application, and reads the new ones all the same."""
    with (
        topic_of_two(kafka_cluster) as topic,
        caplog.at_level(logging.WARNING, "penstock"),
        reading(kafka_cluster, topic, member, parted_at=LOST.start) as seen,
    ):
        one_of_two_falls_behind(kafka_cluster, topic)
        seen.await_all([*BOTH, *LOST], WITHIN_S)
        it_is_made_leader(kafka_cluster, topic)
        write(kafka_cluster, topic, NEW)
        seen.await_all(NEW, WITHIN_S)
    told = "the log was cut off at 100: 500 offsets that were read, up to 600" in caplog.text
    assert told == (member is ours)


def test_a_transaction_whose_records_are_lost_leaves_its_producer_usable(kafka_cluster: Cluster) -> None:
    with topic_of_two(kafka_cluster) as topic, Producer(kafka_cluster.address, transactional_id=topic) as producer:
        with producer.transaction():
            for number in BOTH:
                producer.send(topic, b"%d" % number)
        # Its marker is written after the commit was answered, and belongs to what both have.
        comes_to(lambda: shown(kafka_cluster, topic), (BOTH[0], BOTH[-1], len(BOTH)), WITHIN_S)
        kafka_cluster.kill(2)
        kafka_cluster.await_in_sync(topic, 0, [1])
        producer.begin_transaction()
        for number in LOST:
            producer.send(topic, b"%d" % number)
        producer.flush()
        it_is_made_leader(kafka_cluster, topic)
        told: list[PenstockError] = []
        try:
            producer.send(topic, b"%d" % LOST.stop)
            producer.commit_transaction()
        except PenstockError as error:
            told.append(error)
            producer.abort_transaction()
        assert told, "half of a transaction was lost, and it was committed without a word"
        with producer.transaction():
            for number in NEW:
                producer.send(topic, b"%d" % number)
        values = [*BOTH, *NEW]
        comes_to(lambda: shown(kafka_cluster, topic), (values[0], values[-1], len(values)), WITHIN_S)


def shown(cluster: Cluster, topic: str) -> tuple[int, int, int]:
    """The first and the last committed value, and how many there are."""
    values = sorted(stored(cluster, topic, 1, isolation_level="read_committed")) or [-1]
    return values[0], values[-1], len(values)


def test_a_query_ends_with_what_was_lost(spark: SparkSession, kafka_cluster: Cluster, tmp_path: Path) -> None:
    with topic_of_two(kafka_cluster) as topic:
        rows = spark.readStream.format("penstock").option("startingOffsets", "earliest")
        frame = rows.load(f"{kafka_cluster.address}/{topic}").selectExpr("cast(value as string) value")
        table = topic.replace("-", "_")
        writer = frame.writeStream.format("memory").queryName(table)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            one_of_two_falls_behind(kafka_cluster, topic)
            comes_to(lambda: spark.table(table).count(), len(BOTH) + len(LOST), WITHIN_S)
            it_is_made_leader(kafka_cluster, topic)
            write(kafka_cluster, topic, NEW)
            comes_to(lambda: query.isActive, False, WITHIN_S)
            assert "cut off at 100: 500 offsets" in str(query.exception())
        finally:
            query.stop()
