"""Frames of one topic, with Spark's own connector or with ours, and a function that runs streams to their end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from bench.spark_jvm import TUNED, folder
from bench.topics import PARTITIONS

__all__ = ["Drained", "Source", "drain"]

BATCHES_OF_A_LIMITED_STREAM = 5
_TOUCHED = 100
"""Records of each partition that `Source.touch` reads."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic of ``count`` records."""

    spark: SparkSession
    bootstrap: str
    topic: str
    count: int
    partitions: int = PARTITIONS

    def frame(self, case: str) -> DataFrame:
        """The rows of a case: its first word is "connector" or "penstock".

        Further words: "tuned" for an expert's settings, "value" for only that column, "stream" for a stream, "limited"
        for a stream with several batches; words of actions are ignored.
        """
        name, *words = case.split()
        reader = self.spark.readStream if "stream" in words else self.spark.read
        options = {"subscribe": self.topic, "startingOffsets": "earliest", "kafka.bootstrap.servers": self.bootstrap}
        if "limited" in words:
            options["maxOffsetsPerTrigger"] = str(self.count // BATCHES_OF_A_LIMITED_STREAM)
        if "tuned" in words:
            options |= TUNED
        if name == "penstock":
            columns = {"columns": "value"} if "value" in words else {}
            return reader.format("penstock").options(**options, **columns).load()
        frame = reader.format("kafka").options(**options).load()
        return frame.select("value") if "value" in words else frame

    def touch(self) -> None:
        """Read a little with our source, so that Spark's Python processes run; they end after an idle minute.

        Called before every case of every reader. Otherwise a long round would include their start, and a short one
        would not.
        """
        start = {"subscribe": self.topic, "kafka.bootstrap.servers": self.bootstrap}
        ends = json.dumps({self.topic: dict.fromkeys(map(str, range(self.partitions)), _TOUCHED)})
        reader = self.spark.read.format("penstock").options(**start, endingOffsets=ends, minPartitions="2")
        reader.load().write.format("noop").mode("overwrite").save()


@dataclass(frozen=True, slots=True)
class Drained:
    """From a stream's progress: the number of batches with rows, and the number of rows."""

    batches: int
    rows: int


def drain(
    frame: DataFrame,
    sink: str = "noop",
    options: Mapping[str, str] | None = None,
    each: Callable[[DataFrame, int], None] | None = None,
) -> Drained:
    """Run a stream with AvailableNow until it ends, into ``sink``, or batch by batch into ``each``."""
    with folder() as checkpoint:
        writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer = writer.foreachBatch(each) if each else writer.format(sink).options(**(options or {}))
        query = writer.start()
        query.awaitTermination()
        rows = [progress.numInputRows for progress in query.recentProgress]
    return Drained(sum(1 for count in rows if count), sum(rows))
