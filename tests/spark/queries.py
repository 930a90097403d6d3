"""Running a stream to its end and keeping what it read, batch by batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.logs import TestTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Collected:
    """A sink keyed by batch number, as a sink that must not repeat itself has to be."""

    def __init__(self) -> None:
        self.batches: dict[int, dict[int, list[int]]] = {}
        self.calls: dict[int, list[dict[int, list[int]]]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        found: dict[int, list[int]] = {}
        for row in frame.select("partition", "offset").collect():
            found.setdefault(row.partition, []).append(row.offset)
        found = {partition: sorted(offsets) for partition, offsets in sorted(found.items())}
        self.batches[batch] = found
        self.calls.setdefault(batch, []).append(found)

    def offsets(self) -> dict[int, list[int]]:
        """All offsets read, by partition; an offset that was read twice is there twice."""
        every: dict[int, list[int]] = {}
        for found in self.batches.values():
            for partition, offsets in found.items():
                every.setdefault(partition, []).extend(offsets)
        return {partition: sorted(offsets) for partition, offsets in sorted(every.items())}


def stream(spark: SparkSession, topic: TestTopic, *, source: str = "penstock", **options: Any) -> DataFrame:
    return spark.readStream.format(source).options(**options).load(topic.address)


def run_available(frame: DataFrame, sink: Collected, folder: Path) -> list[dict[str, Any]]:
    """Run to the end of what is there now; the progress of each batch that had rows. Raises what ended the query."""
    query = (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return [json_of(progress) for progress in query.recentProgress if progress["numInputRows"]]


def json_of(progress: Any) -> dict[str, Any]:
    """Progress with its offsets parsed."""
    import json

    told = dict(progress if isinstance(progress, dict) else json.loads(progress.json))
    for source in told["sources"]:
        for name in ("startOffset", "endOffset", "latestOffset"):
            if isinstance(source.get(name), str):
                source[name] = json.loads(source[name])
    return told


def offsets_of(folder: Path, batch: int) -> list[str]:
    """The sources' offsets of a batch, as Spark's checkpoint has them."""
    lines = (folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
    return lines[2:]
