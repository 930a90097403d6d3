"""Streams are planned by forks of a keeper: the second query's, and every later one's."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from pyspark.errors import StreamingQueryException

from tests.eventually import comes_to
from tests.processes import below, named
from tests.spark.logs import TestTopic
from tests.spark.planned import Planned, start
from tests.spark.programs import run_program
from tests.spark.queries import Collected, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def kept(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    """The keeper is there."""
    spark.dataSource.register(Planned)
    topic.create(1)
    topic.fill({0: 3})
    sink = Collected()
    run_available(stream(spark, topic, startingOffsets="earliest"), sink, tmp_path / "first")
    assert sink.offsets() == {0: [0, 1, 2]}


def planner(spark: SparkSession, folder: Path) -> tuple[StreamingQuery, psutil.Process, str]:
    """A running query, the process that plans it, and the master that it sees."""
    found: list[tuple[int, int, str]] = []
    query = start(spark, folder, found)
    comes_to(lambda: bool(found) or not query.isActive, True, 60)
    pid, parent, master = found[0]
    process = psutil.Process(pid)
    assert process.ppid() == parent
    return query, process, master


def jvm(spark: SparkSession) -> int:
    (found,) = named(below(psutil.Process()), "java")
    return int(found.pid)


def test_queries_are_planned_by_forks_of_one_keeper(spark: SparkSession, tmp_path: Path) -> None:
    first, one, master = planner(spark, tmp_path / "a")
    second, other, _ = planner(spark, tmp_path / "b")
    try:
        assert one.pid != other.pid
        assert one.ppid() == other.ppid() != jvm(spark)
        assert master == spark.sparkContext.master
    finally:
        first.stop()
        second.stop()
    comes_to(one.is_running, False, 30)
    comes_to(other.is_running, False, 30)


def test_what_a_fork_raises_is_what_the_query_raises(spark: SparkSession, tmp_path: Path) -> None:
    query = start(spark, tmp_path / "c", [], fails="for a reason")
    with pytest.raises(StreamingQueryException, match="for a reason"):
        query.awaitTermination()


def test_a_planner_that_is_killed_ends_its_query_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    first, one, _ = planner(spark, tmp_path / "d")
    second, other, _ = planner(spark, tmp_path / "e")
    try:
        one.send_signal(signal.SIGKILL)
        comes_to(lambda: first.isActive, False, 60)
        assert first.exception() is not None
        assert other.is_running()
        assert second.isActive
    finally:
        second.stop()


def test_a_keeper_that_is_killed_is_followed_by_another(spark: SparkSession, topic: TestTopic, tmp_path: Path) -> None:
    query, process, _ = planner(spark, tmp_path / "f")
    keeper = psutil.Process(process.ppid())
    query.stop()
    keeper.kill()
    comes_to(keeper.is_running, False, 30)
    sink = Collected()
    run_available(stream(spark, topic, startingOffsets="earliest"), sink, tmp_path / "g")
    assert sink.offsets() == {0: [0, 1, 2]}
    query, process, _ = planner(spark, tmp_path / "h")
    try:
        assert process.ppid() not in {keeper.pid, jvm(spark)}
    finally:
        query.stop()


def test_it_ends_with_the_jvm(tmp_path: Path) -> None:
    output = tmp_path / "printed"
    assert run_program("tests.spark.planned", {"folder": str(tmp_path)}, output) == 0, output.read_text()
    (line,) = (each for each in output.read_text().splitlines() if each.startswith("keeper "))
    comes_to(lambda: psutil.pid_exists(int(line.split()[1])), False, 30)
