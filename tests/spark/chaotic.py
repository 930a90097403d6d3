"""``format("chaotic")``: our source and sink with wires that kill the JVM or the server at a step of a given batch.

A wire is a file "<step>-<batch>", or "node-<step>-<batch>", in the folder of option ``wires``, and is tripped once. Run
as a program it is a query that copies a topic: ``python -m tests.spark.chaotic '{"from": …}'``; it ends with 0 when
everything there is is copied.
"""

# ruff: noqa: N802, N803 - the names of methods and arguments are Spark's

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.spark import PenstockDataSource
from penstock.spark._reading import StreamReader
from penstock.spark._sink import StreamWriter, _place, stream_writer
from penstock.spark._sink_once import Slot
from penstock.spark._sink_transactions import Transactions
from tests.spark.wires import kill_jvm, kill_node, tripped

STEPS = ("planned", "task", "decided", "stored")
"""After the write-ahead log; half-way in a task; decided and not all committed; before Spark's commit log."""


ON_NODE = "node-"
"""Before a step's name: not the JVM is killed, but the server."""


def trip(wires: Path, step: str, batch: int) -> None:
    """Kill the server, the JVM, or first the one and then the other, if there is a wire for this."""
    if tripped(wires, f"{ON_NODE}{step}-{batch}"):
        kill_node(wires)
    if tripped(wires, f"{step}-{batch}"):
        kill_jvm()


class ChaoticSource(PenstockDataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.wires = Path(options.pop("wires"))
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "chaotic"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, StreamReader)
        return ChaoticReader(reader.options, self.wires)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = stream_writer(dict(self.options), schema, overwrite)
        writer.__class__ = ChaoticWriter
        writer.wires = self.wires  # type: ignore[attr-defined]
        return writer


class ChaoticReader(StreamReader):
    def __init__(self, options: Any, wires: Path) -> None:
        super().__init__(options)
        self.wires = wires
        self.planned = 0

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        # The runner does not know the batch's number: wires of this step count the batches of a run.
        trip(self.wires, "planned", self.planned)
        self.planned += 1
        return super().partitions(start, end)


class ChaoticWriter(StreamWriter):
    wires: Path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(self._half(iterator))

    def _half(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            trip(self.wires, "task", _place().batch)
            yield batch.slice(batch.num_rows // 2)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        first = Transactions.complete

        def complete(log: Transactions, slot: Slot, *, commit: bool) -> bool:
            done = first(log, slot, commit=commit)
            trip(self.wires, "decided", batchId)
            return done

        Transactions.complete = complete  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            Transactions.complete = first  # type: ignore[method-assign]
        trip(self.wires, "stored", batchId)


def main(given: dict[str, Any]) -> None:
    import penstock.spark
    from tests.spark.sessions import CONF

    spark = penstock.spark.session("copy", "local[2]", **CONF, **{"spark.sql.warehouse.dir": given["warehouse"]})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(ChaoticSource)
    source = spark.readStream.format("chaotic").options(wires=given["wires"], **given["source"]).load(given["from"])
    query = (
        source.select("key", "value")
        .writeStream.format("chaotic")
        .options(wires=given["wires"], checkpointLocation=given["checkpoint"], **given["sink"])
        .trigger(availableNow=True)
        .start(given["to"])
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
