"""The README's line for Spark, as a batch: found by its name, with nothing registered by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_reads_what_was_produced(spark: SparkSession, broker: Broker) -> None:
    broker.create_topic("flights", partitions=2)
    with penstock.Producer(broker.address) as producer:
        for number in range(100):
            producer.send("flights", b"%d" % number, key=b"AA")
    found = spark.read.format("penstock").option("subscribe", "flights").load(broker.address)
    rows = found.selectExpr("CAST(key AS STRING) AS key", "CAST(CAST(value AS STRING) AS INT) AS number").collect()
    assert sorted(row.number for row in rows) == list(range(100))
    assert {row.key for row in rows} == {"AA"}
