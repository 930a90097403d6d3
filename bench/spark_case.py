"""One Spark session that measures all readers of a topic in turn: ``python -m bench.spark_case JOB`` prints figures.

`bench.scenarios.spark` runs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from bench.spark_actions import action
from bench.spark_frames import Source
from bench.spark_jvm import Stopwatch, say, session
from bench.spark_told import told_cases

__all__ = ["main", "measure"]


def main(job: Mapping[str, Any]) -> None:
    """Measure with a topic of Kafka."""
    measure(job, lambda spark: Source(spark, job["bootstrap"], job["topic"], job["count"]))


def measure(job: Mapping[str, Any], source_of: Callable[[SparkSession], Source]) -> None:
    """Checksums of every case first, then the timed rounds."""
    spark = session()
    watch = Stopwatch()
    source = source_of(spark)

    def sums(case: str) -> Mapping[str, object]:
        return {"evidence": action(case).evidence, "sums": action(case).sums(source, case)}

    def figures(case: str) -> Mapping[str, object]:
        source.touch()
        return asdict(action(case).run(source, case, watch))

    told_cases(job, sums, figures)
    say({"rss_mb": watch.rss_mb})
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
