"""How many tasks a read has: planners see the settings of the Spark that started them, or are told them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

import penstock.spark
from penstock.spark._launch import TOLD
from tests.spark.logs import TestTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = 12


class SeenSettings(DataSource):
    """One row: the settings as a planner sees them."""

    @classmethod
    def name(cls) -> str:
        return "seen-settings"

    def schema(self) -> str:
        return "seen string"

    def reader(self, schema: object) -> DataSourceReader:
        from penstock.spark._launch import settings

        seen = json.dumps(settings())

        class Reader(DataSourceReader):
            def read(self, partition: object) -> Iterator[tuple[str]]:
                yield (seen,)

        return Reader()


def tasks(spark: SparkSession, topic: TestTopic, **options: str) -> int:
    return spark.read.format("penstock").options(**options).load(topic.address).rdd.getNumPartitions()


def test_a_planner_sees_the_command_line_of_its_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(spark.sparkContext.environment, TOLD, raising=False)  # what register() has told goes first
    spark.dataSource.register(SeenSettings)
    seen = json.loads(spark.read.format("seen-settings").load().head().seen)
    assert seen["spark.master"] == spark.sparkContext.master
    assert seen["spark.sql.shuffle.partitions"] == "2"


def test_who_gets_the_session_that_runs_does_not_change_it(spark: SparkSession) -> None:
    before = {name: spark.conf.get(name) for name in ("spark.master", "spark.app.name", "spark.sql.shuffle.partitions")}
    assert penstock.spark.session("another", "local[7]") is spark
    assert {name: spark.conf.get(name) for name in before} == before


def test_small_partitions_share_a_task_here_and_have_their_own_on_a_cluster(
    spark: SparkSession, topic: TestTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.create(PARTITIONS)
    topic.fill(dict.fromkeys(range(PARTITIONS), 10))
    assert tasks(spark, topic) == 1
    penstock.spark.register(spark)
    assert tasks(spark, topic) == 1
    environment = spark.sparkContext.environment
    told = {**json.loads(environment[TOLD]), "spark.master": "spark://10.0.0.1:7077"}
    try:
        # As register() would have it with that master; this one has no such cluster.
        monkeypatch.setitem(environment, TOLD, json.dumps(told))
        spark.dataSource.register(penstock.spark.PenstockDataSource)
        assert tasks(spark, topic) == PARTITIONS
        assert tasks(spark, topic, maxPartitions="5") == 5
        assert tasks(spark, topic, parallelism="4") == 1
    finally:
        monkeypatch.undo()
        penstock.spark.register(spark)
    assert tasks(spark, topic) == 1
