"""A listener hears rows, bytes and lag of real streams, and answers a scrape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from penstock.model import Partition
from tests.spark.logs import TestTopic
from tests.spark.queries import Collected, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_stream_is_seen_with_its_lag(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    from penstock.spark import StreamListener, with_metrics

    topic.create(2)
    topic.fill({0: 1_000, 1: 500}, value_bytes=100)
    listener = StreamListener()
    spark.streams.addListener(listener)
    url = listener.serve()
    source = stream(spark, topic, startingOffsets="earliest", maxOffsetsPerTrigger="600")
    try:
        query = (
            source.writeStream.foreachBatch(Collected())
            .queryName("seen")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
        seen = listener.streams[str(query.id)]
        with urlopen(url) as answer:
            text = answer.read().decode()
        listener.write(tmp_path / "streams.prom")
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    assert (seen.name, seen.batches, seen.rows, seen.running, seen.error) == ("seen", 3, 1_500, False, None)
    assert 1_500 * 100 < seen.size_bytes < 1_500 * 140
    assert {partition: (lag.offset, lag.offsets, lag.seconds) for partition, lag in seen.lag.items()} == {
        Partition(topic.name, 0): (1_000, 0, 0.0),
        Partition(topic.name, 1): (500, 0, 0.0),
    }
    names = {"avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest"}
    last = with_metrics(query.lastProgress)
    assert names < last["sources"][0]["metrics"].keys()
    assert seen.progress == last
    assert f'penstock_stream_rows_total{{id="{query.id}",query="seen"}} 1500' in text
    assert (tmp_path / "streams.prom").read_text() == text
