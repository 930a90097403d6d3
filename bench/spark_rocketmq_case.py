"""One Spark session that reads a RocketMQ topic: ``python -m bench.spark_rocketmq_case JOB`` prints figures.

`bench.scenarios.spark_rocketmq` runs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from bench.spark_case import measure
from bench.spark_frames import Source

__all__ = ["RocketSource", "main"]

PULL = 1_024
_WARMING = 10_000


class RocketSource(Source):
    """``bootstrap`` is a name server's address."""

    def frame(self, case: str) -> DataFrame:
        """The same as in `Source`, always with our source."""
        words = case.split()
        reader = self.spark.readStream if "stream" in words else self.spark.read
        options = {"startingOffsets": "earliest", "rocketmq.pull_batch_size": str(PULL)}
        if "value" in words:
            options["columns"] = "value"
        return reader.format("penstock").options(**options).load(f"rocketmq://{self.bootstrap}/{self.topic}")

    def touch(self) -> None:
        """The same as in `Source`, but with Spark's own range, which starts the same Python processes."""
        self.spark.range(_WARMING).mapInArrow(_same, "id long").write.format("noop").mode("overwrite").save()


def _same(batches: Any) -> Any:
    yield from batches


def main(job: Mapping[str, Any]) -> None:
    """Measure with a topic of RocketMQ."""
    place = job["bootstrap"], job["topic"], job["count"], job["partitions"]
    measure(job, lambda spark: RocketSource(spark, *place))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
