"""A node that goes away and comes back: the query waits for it and goes on, nothing lost and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from tests.spark.logs import TestTopic
from tests.spark.nodes import NodeThread
from tests.spark.queries import Collected, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[NodeThread]:
    node = NodeThread(f"file:{tmp_path / 'store'}")
    node.start()
    try:
        yield node
    finally:
        node.stop()


class Telling(Collected):
    """Sets ``seen`` when a batch with records came."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Event()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        super().__call__(frame, batch)
        if self.batches[batch]:
            self.seen.set()


def test_query_outlives_a_restart_of_the_node(spark: SparkSession, own_node: NodeThread, tmp_path: Path) -> None:
    topic = TestTopic(own_node.url, "restarted")
    topic.create(2)
    topic.fill({0: 5, 1: 5})
    sink = Telling()
    source = stream(spark, topic, startingOffsets="earliest", group="restarted", commitOffsets="true")
    query = (
        source.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        assert sink.seen.wait(60)
        own_node.stop()
        sink.seen.clear()
        # The query's next look at the log begins while nothing listens.
        waiting = Thread(target=query.processAllAvailable)
        waiting.start()
        own_node.start()
        waiting.join()
        topic.fill({0: 3, 1: 1})
        query.processAllAvailable()
        topic.fill({1: 1})
        query.processAllAvailable()
    finally:
        query.stop()
    assert sink.offsets() == {0: list(range(8)), 1: list(range(7))}
    assert topic.committed("restarted") in ({0: 8, 1: 6}, {0: 8, 1: 7})
