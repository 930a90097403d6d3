"""One Spark session that plans reads and runs none: ``python -m bench.spark_planning_case JOB`` prints figures.

Spark asks a source for its partitions when it needs the number of tasks; our source answers in a Python process, the
connector in the driver. `bench.scenarios.spark_planning` runs it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.spark_frames import Source
from bench.spark_jvm import session
from bench.spark_told import told_rounds

__all__ = ["main"]


@dataclass(frozen=True, slots=True)
class _Reads:
    spark: SparkSession
    bootstrap: str
    topics: Mapping[str, str]
    """The topic for each number of partitions."""

    def frame(self, case: str) -> DataFrame:
        """The frame of "READER; N" with N partitions; after "penstock" there may be ", a task a partition"."""
        reader, _, partitions = case.partition("; ")
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topics[partitions]}
        if reader == "connector":
            return self.spark.read.format("kafka").options(**options).load()
        if reader.endswith("a task a partition"):
            options["minPartitions"] = partitions
        return self.spark.read.format("penstock").options(**options).load()

    def measure(self, case: str) -> Mapping[str, object]:
        """Seconds from the creation of the frame until Spark has its tasks, and their number."""
        begun = time.perf_counter()
        tasks = self.frame(case).rdd.getNumPartitions()
        return {"seconds": time.perf_counter() - begun, "tasks": tasks}


def main(job: Mapping[str, Any]) -> None:
    """Measure all rounds of all cases."""
    spark = session()
    reads = _Reads(spark, job["bootstrap"], job["topics"])
    touched = Source(spark, job["bootstrap"], reads.topics["1"], 0, partitions=1)

    def figures(case: str) -> Mapping[str, object]:
        touched.touch()
        return reads.measure(case)

    told_rounds(job["cases"], figures, warm=job["warm"], runs=job["runs"])
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
