"""What runs on a cluster, as an application of its own: ``cluster_job.py look|copy SERVER [FOLDER]``.

It is copied to the driver's folder and sees penstock only as the cluster does. Prints what it saw as JSON.
What must not live here: assertions.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import penstock.spark


def look(server: str) -> dict[str, Any]:
    """How a batch and a stream are planned, what they read, and with which penstock."""
    spark = penstock.spark.session("look")
    frame = spark.read.format("penstock").load(f"{server}/many")
    rows = frame.groupBy("partition").agg({"offset": "sum", "*": "count"}).collect()
    planned: list[int] = []
    stream = spark.readStream.format("penstock").option("startingOffsets", "earliest").load(f"{server}/many")
    stream.writeStream.foreachBatch(lambda batch, _: planned.append(batch.rdd.getNumPartitions())).trigger(
        availableNow=True
    ).start().awaitTermination()
    one = spark.read.format("penstock").option("parallelism", 1).load(f"{server}/many")
    homes = spark.sparkContext.parallelize(range(16), 16).mapPartitions(where).distinct().collect()
    return {
        "tasks": frame.rdd.getNumPartitions(),
        "stream": planned,
        "one": one.rdd.getNumPartitions(),
        "rows": {row["partition"]: [row["count(1)"], row["sum(offset)"]] for row in rows},
        "homes": sorted(homes),
        "driver": [penstock.__file__, sys.executable],
    }


def where(_: Iterator[int]) -> Iterator[tuple[str, str, str]]:
    """On an executor: its folder, its penstock, its Python."""
    import penstock

    yield os.getcwd(), os.path.abspath(penstock.__file__), os.path.abspath(sys.executable)  # noqa: PTH100, PTH109


def copy(server: str, folder: str) -> dict[str, Any]:
    """From topic to topic, exactly once, in small batches."""
    spark = penstock.spark.session("copy")
    rows = spark.readStream.format("penstock").option("startingOffsets", "earliest")
    query = (
        rows.option("maxOffsetsPerTrigger", 3_000)
        .load(f"{server}/many")
        .select("key", "value", "partition")
        .writeStream.format("penstock")
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start(f"{server}/copies")
    )
    query.awaitTermination()
    return {"batches": sum(1 for each in query.recentProgress if each.numInputRows)}


if __name__ == "__main__":
    print(json.dumps({"look": look, "copy": copy}[sys.argv[1]](*sys.argv[2:])))
