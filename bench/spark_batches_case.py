"""One Spark session with streams of tiny micro-batches: ``python -m bench.spark_batches_case JOB``.

It measures the fixed cost of a batch. Spark runs no batch without new data, so each has a few records. All figures are
from Spark's own progress of each batch. `bench.scenarios.spark_batches` runs it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.spark_frames import Source
from bench.spark_jvm import TUNED, folder, session
from bench.spark_told import told_rounds

__all__ = ["main"]

FIRST = 3
"""First batches of a query that are not counted: the first starts processes, the next ones warm up."""
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class _Streams:
    spark: SparkSession
    bootstrap: str
    topics: Mapping[str, str]
    """The topic for each number of partitions."""
    records: int
    """Records in each batch."""

    def frame(self, case: str) -> DataFrame:
        """ "READER, N partition(s)"; a reader is rate, connector, connector tuned or penstock."""
        reader, _, shape = case.partition(", ")
        partitions = shape.split()[0]
        stream = self.spark.readStream
        if reader == "rate":
            options = {"rowsPerBatch": str(self.records), "numPartitions": partitions}
            return stream.format("rate-micro-batch").options(**options).load()
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.topics[partitions],
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.records),
            **(TUNED if reader.endswith("tuned") else {}),
        }
        return stream.format("penstock" if reader == "penstock" else "kafka").options(**options).load()

    def measure(self, case: str, batches: int) -> Mapping[str, object]:
        """Median milliseconds of a batch and of its phases; seconds from the start to the end of the first batch."""
        with folder() as checkpoint:
            writer = self.frame(case).writeStream.format("noop").option("checkpointLocation", checkpoint)
            begun = time.time()
            query = writer.trigger(processingTime="0 seconds").start()
            try:
                _wait_for(query, FIRST + batches)
                progress = [json.loads(each.json) for each in query.recentProgress if each.numInputRows]
            finally:
                query.stop()
        counted = progress[FIRST : FIRST + batches]
        if {each["numInputRows"] for each in counted} != {self.records}:
            raise ValueError(f"batches of {[each['numInputRows'] for each in counted]} records, not {self.records}")
        phases = _medians([each["durationMs"] for each in counted])
        first = progress[0]
        ended = datetime.fromisoformat(first["timestamp"]).timestamp() + first["durationMs"]["triggerExecution"] / 1000
        return {"batches": len(counted), "ms": phases["triggerExecution"], "phases": phases, "first_s": ended - begun}


def main(job: Mapping[str, Any]) -> None:
    """Measure all rounds of all cases."""
    spark = session()
    streams = _Streams(spark, job["bootstrap"], job["topics"], job["records"])
    touched = Source(spark, job["bootstrap"], streams.topics["1"], 0, partitions=1)

    def figures(case: str) -> Mapping[str, object]:
        touched.touch()
        return streams.measure(case, job["batches"])

    told_rounds(job["cases"], figures, warm=job["warm"], runs=job["runs"])
    spark.stop()


def _wait_for(query: Any, batches: int) -> None:
    """Wait until so many batches are done. Raises the query's error, or ValueError."""
    deadline = time.monotonic() + _PATIENCE_S
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches:
        if query.awaitTermination(0.1) or time.monotonic() > deadline:
            raise ValueError(f"no {batches} batches in {_PATIENCE_S:.0f} s: {query.lastProgress}")


def _medians(durations: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for each in durations for name in each}
    return {name: statistics.median(each.get(name, 0) for each in durations) for name in sorted(names)}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
