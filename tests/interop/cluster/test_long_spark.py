"""Everything that happens to brokers, under a query that reads one topic and writes another: each row is there once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.eventually import comes_to
from tests.interop.cluster.traffic import stored, writing
from tests.interop.cluster.troubles import PARTITIONS, TROUBLES, most_replaced
from tools.peers.kafka_cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.interop, pytest.mark.long]

WITHIN_S = 180.0

# Each batch has clients of its own, which know no other brokers than those that the query was given.
HARMS = {**{name: do for name, do in TROUBLES.items() if name != "all_replaced"}, "most_replaced": most_replaced}


@contextmanager
def copying(spark: SparkSession, cluster: Cluster, source: str, target: str, folder: Path) -> Iterator[StreamingQuery]:
    """A query that a broker's trouble must not end."""
    frame = spark.readStream.format("penstock").option("startingOffsets", "earliest")
    rows = frame.load(f"{cluster.address}/{source}?metadata_max_age_ms=5000").select("key", "value")
    writer = rows.writeStream.format("penstock").option("path", f"{cluster.address}/{target}")
    options = {"deliveryGuarantee": "exactly-once", "checkpointLocation": str(folder / "checkpoint")}
    query = writer.options(**options).trigger(processingTime="500 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


@pytest.mark.parametrize("happens", HARMS)
def test_a_query_copies_each_record_once(
    spark: SparkSession, kafka_cluster: Cluster, tmp_path: Path, happens: str
) -> None:
    source = f"t-{uuid.uuid4().hex[:8]}"
    target = f"{source}-copy"
    kafka_cluster.create_topic(source, PARTITIONS, min_insync_replicas="1")
    kafka_cluster.create_topic(target, PARTITIONS, min_insync_replicas="1")
    with copying(spark, kafka_cluster, source, target, tmp_path) as query:
        with writing(kafka_cluster, source, acks="all", metadata_max_age_ms=5_000) as written:
            written.await_more(100)
            arrives(kafka_cluster, target, list(written.acknowledged), query)
            HARMS[happens](kafka_cluster, source)
            written.await_more(200)
        arrives(kafka_cluster, target, list(written.acknowledged), query)


def arrives(cluster: Cluster, target: str, values: list[int], query: StreamingQuery) -> None:
    """``stored`` itself asserts that nothing is there twice."""

    def missing() -> int:
        assert query.isActive, query.exception()
        there = stored(cluster, target, PARTITIONS, isolation_level="read_committed")
        return sum(value not in there for value in values)

    comes_to(missing, 0, within_s=WITHIN_S)
