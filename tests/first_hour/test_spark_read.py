"""The README's lines for Spark, as they are printed, and as a batch: found by name, with nothing registered by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.testing import Broker
from tests.docs.test_examples import blocks
from tests.docs.test_readme import README, addressed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def test_spark_streams_as_the_readme_prints_it(spark: SparkSession) -> None:
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as node:
        node.create_topic("flights", partitions=1)
        space: dict[str, Any] = {"spark": spark}
        code = blocks(README, "python")[-1][1]
        exec(compile(addressed(code, node), str(README), "exec"), space)
        streams = {name: Collected(space[name]) for name in ("flights", "chosen")}
        with penstock.Producer(node.address) as producer:
            for carrier in (b"AA", b"DL", b"UA"):
                producer.send("flights", b"{}", key=carrier, headers={"tubemq.filter": carrier})
        found = {name: stream.keys() for name, stream in streams.items()}
        assert found == {"flights": {b"AA", b"DL", b"UA"}, "chosen": {b"AA", b"UA"}}


class Collected:
    """The keys of what comes into a stream from now on."""

    def __init__(self, stream: DataFrame) -> None:
        self._keys: set[bytes] = set()
        self._query = stream.writeStream.foreachBatch(self._look).start()
        self._query.processAllAvailable()  # now it knows where it began

    def _look(self, rows: DataFrame, _: int) -> None:
        self._keys.update(bytes(row.key) for row in rows.collect())

    def keys(self) -> set[bytes]:
        self._query.processAllAvailable()
        self._query.stop()
        return self._keys
