"""A query that dies between two steps of Spark's micro-batch protocol goes on, without loss and without repetition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.logs import TestTopic
from tests.spark.queries import Collected, offsets_of, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Arming(Collected):
    """Collects, and at batch ``at`` arms a wire of the source, or fails itself after its work is done."""

    def __init__(self, wires: Path, wire: str, at: int) -> None:
        super().__init__()
        self.wires, self.wire, self.at = wires, wire, at

    def __call__(self, frame: DataFrame, batch: int) -> None:
        super().__call__(frame, batch)
        if batch == self.at:
            self.at = -1
            if self.wire == "sink":
                raise RuntimeError("tripped in sink")
            (self.wires / self.wire).touch()


@pytest.fixture
def failing(spark: SparkSession) -> SparkSession:
    from tests.spark.failing import FailingSource

    spark.dataSource.register(FailingSource)
    return spark


@pytest.mark.parametrize("wire", ["sink", "latestOffset", "partitions", "commit"])
def test_killed_step_is_repeated_with_the_same_offsets(
    failing: SparkSession, topic: TestTopic, tmp_path: Path, wire: str
) -> None:
    topic.create(2)
    topic.fill({0: 100, 1: 80})
    sink = Arming(tmp_path, wire, at=0)
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "60",
        "group": topic.name,
        "commitOffsets": "true",
    }
    source = stream(failing, topic, source="failing", wires=str(tmp_path), **options)
    with pytest.raises(Exception, match=f"tripped in {wire}"):
        run_available(source, sink, tmp_path)
    topic.fill({0: 10, 1: 10})
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {0: list(range(110)), 1: list(range(90))}
    assert all(len(set(map(str, calls))) == 1 for calls in sink.calls.values())
    assert topic.committed(topic.name) == {0: 110, 1: 90}


def test_task_that_dies_half_way_is_read_again_as_a_whole(
    failing: SparkSession, topic: TestTopic, tmp_path: Path
) -> None:
    topic.create(1)
    topic.fill({0: 30_000})
    (tmp_path / "read").touch()
    sink = Collected()
    run_available(
        stream(failing, topic, source="failing", wires=str(tmp_path), startingOffsets="earliest"), sink, tmp_path
    )
    assert not (tmp_path / "read").exists()
    assert sink.offsets() == {0: list(range(30_000))}


def test_crash_in_the_first_batch_does_not_move_the_start(
    failing: SparkSession, topic: TestTopic, tmp_path: Path
) -> None:
    topic.create(1)
    topic.fill({0: 5})
    sink = Collected()
    source = stream(failing, topic, source="failing", wires=str(tmp_path))  # starts at latest: 5
    (tmp_path / "partitions").touch()
    with pytest.raises(Exception, match="tripped in partitions"):
        run_available(source, sink, tmp_path)
    topic.fill({0: 3})  # from here on "latest" means 8, and Spark asks for the initial offset again
    run_available(source, sink, tmp_path)
    assert sink.offsets() == {0: [5, 6, 7]}
    assert json.loads(offsets_of(tmp_path, 0)[0])["from"] == {topic.name: {"0": 5}}


def test_records_that_age_out_between_plan_and_replay_are_told(
    failing: SparkSession, topic: TestTopic, tmp_path: Path
) -> None:
    topic.create(1)
    topic.fill({0: 50})
    sink = Collected()
    options = {"source": "failing", "wires": str(tmp_path), "startingOffsets": "earliest"}
    (tmp_path / "partitions").touch()
    with pytest.raises(Exception, match="tripped in partitions"):
        run_available(stream(failing, topic, **options), sink, tmp_path)
    topic.delete_before({0: 20})
    with pytest.raises(Exception, match="20 offsets up to 20 are gone"):
        run_available(stream(failing, topic, **options), sink, tmp_path)
    run_available(stream(failing, topic, **options, failOnDataLoss="false"), sink, tmp_path)
    assert sink.offsets() == {0: list(range(20, 50))}
