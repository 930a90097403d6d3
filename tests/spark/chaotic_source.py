"""``format("chaotic-source")``: our source with wires that kill the JVM or the node, or delete records, at one moment.

A wire is a file "<what>-<number of the batch in this run>" in the folder of option ``wires``; it is tripped once. Run
as a program it is a query from a topic into Parquet files, exactly once, that ends with what is there; then it prints
what the files hold: ``python -m tests.spark.chaotic_source '{"from": …}'``.
"""

# ruff: noqa: N802 - the names of methods are Spark's

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from penstock.client import Admin
from penstock.model import Partition
from penstock.spark._reading import StreamReader
from penstock.spark._source import PenstockDataSource
from tests.spark.wires import kill_jvm, kill_node, tripped

KILLS_JVM = ("planned", "reading")
"""After the write-ahead log and before the tasks; half-way in a task."""

KILLS_NODE = ("node-before-planning", "node-before-reading", "node-while-reading")
LOSES = "retention"
"""Records are deleted after the batch was planned."""

LOST = "lost.jsonl"


class ChaoticSource(PenstockDataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.wires = Path(options.pop("wires"))
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "chaotic-source"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, StreamReader)
        return ChaoticReader(reader.options, self.wires)


class ChaoticReader(StreamReader):
    def __init__(self, options: Any, wires: Path) -> None:
        super().__init__(options)
        self.wires = wires
        self.asked = self.planned = 0

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._tripped(f"node-before-planning-{self.asked}"):
            kill_node(self.wires)
        self.asked += 1
        return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        number, self.planned = self.planned, self.planned + 1
        tasks = super().partitions(start, end)
        if self._tripped(f"planned-{number}"):
            kill_jvm()
        if self._tripped(f"node-before-reading-{number}"):
            kill_node(self.wires)
        if self._tripped(f"{LOSES}-{number}"):
            self._lose(tasks)
        for task in tasks:
            task.number = number  # type: ignore[attr-defined]
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number = getattr(partition, "number", -1)
        for batch in super().read(partition):
            yield batch.slice(0, batch.num_rows // 2)
            if self._tripped(f"reading-{number}"):
                kill_jvm()
            if self._tripped(f"node-while-reading-{number}"):
                kill_node(self.wires)
            yield batch.slice(batch.num_rows // 2)

    def _tripped(self, wire: str) -> bool:
        return tripped(self.wires, wire)

    def _lose(self, tasks: list[InputPartition]) -> None:
        """Delete the first half of what the first task is about to read of one partition, and note it down."""
        for task in tasks:
            for each in task.ranges:  # type: ignore[attr-defined]
                middle = (each.start + each.end) // 2
                if middle == each.start:
                    continue
                with Admin(self.options.address) as admin:
                    admin.delete_records({Partition(each.topic, each.partition): middle})
                with (self.wires / LOST).open("a") as notes:
                    notes.write(json.dumps([each.partition, each.start, middle]) + "\n")
                return


def main(given: dict[str, Any]) -> None:
    import penstock.spark
    from tests.spark.sessions import CONF

    spark = penstock.spark.session("chaos", "local[2,4]", **CONF, **{"spark.sql.warehouse.dir": given["warehouse"]})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(ChaoticSource)
    source = spark.readStream.format("chaotic-source").options(wires=given["wires"], **given["options"])
    query = (
        source.load(given["from"])
        .select("partition", "offset")
        .writeStream.format("parquet")
        .options(checkpointLocation=given["checkpoint"], path=given["to"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.read.schema("partition int, offset bigint").parquet(given["to"]).collect()
    print("@" + json.dumps([[row.partition, row.offset] for row in rows]))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
