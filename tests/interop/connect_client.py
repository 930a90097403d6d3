"""A client of Spark Connect, in a Python of its own: reads, writes and streams a log without registering anything.

Prints what it saw as JSON; what must not live here: assertions.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from penstock.spark import StreamListener


class Listener(StreamListener):
    """Ours; it says when it has heard everything."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        super().onQueryTerminated(event)
        self.ended.set()


def batch(spark: SparkSession, server: str) -> dict[str, Any]:
    rows = spark.read.format("penstock").option("columns", "key,offset").load(f"{server}/orders")
    written = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
    written.write.format("penstock").mode("append").save(f"{server}/copies")
    copies = spark.read.format("penstock").load(f"{server}/copies")
    return {
        "schema": [list(each) for each in rows.dtypes],
        "rows": rows.count(),
        "copies": sorted(bytes(row.value).decode() for row in copies.collect()),
    }


def stream(spark: SparkSession, server: str, folder: Path) -> int:
    """From log to log; the number of batches."""
    rows = (
        spark.readStream.format("penstock")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 50)
        .load(f"{server}/orders")
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("penstock")
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", str(folder / "streamed"))
        .trigger(availableNow=True)
        .start(f"{server}/streamed")
    )
    query.awaitTermination()
    return sum(1 for each in query.recentProgress if each.numInputRows)


def heard(spark: SparkSession, server: str, folder: Path) -> dict[str, Any]:
    """What our listener tells of a stream."""
    listener = Listener()
    spark.streams.addListener(listener)
    stream(spark, server, folder)
    told = {"ended": listener.ended.wait(60), "metrics": listener.prometheus()}
    spark.streams.removeListener(listener)
    return told


def foreach_batch(spark: SparkSession, server: str, folder: Path) -> None:
    kept = str(folder / "kept")

    def keep(frame: DataFrame, number: int) -> None:
        frame.select("partition", "offset").write.mode("overwrite").parquet(f"{kept}/batch={number}")

    rows = spark.readStream.format("penstock").option("startingOffsets", "earliest").load(f"{server}/orders")
    query = (
        rows.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "foreach"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(server: str, folder: str) -> int:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        told = batch(spark, server)
        told["batches"] = stream(spark, server, Path(folder))
        foreach_batch(spark, server, Path(folder))
        told["heard"] = heard(spark, server, Path(folder) / "heard")
        told["kept"] = spark.read.parquet(f"{folder}/kept").distinct().count()
        told["connect"] = type(spark).__module__
        print(json.dumps(told))
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
