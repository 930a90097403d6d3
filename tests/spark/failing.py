"""The source with trip wires: a file in a folder makes one call fail, once, in whichever process it happens."""

# ruff: noqa: N802 - the names of methods are Spark's

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from penstock.spark._options import SourceOptions, parse_options
from penstock.spark._reading import StreamReader
from penstock.spark._source import PenstockDataSource


class FailingSource(PenstockDataSource):
    """``format("failing")``: option ``wires`` names the folder; a file ``partitions`` in it trips that method."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.wires = Path(options.pop("wires"))
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "failing"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FailingReader(parse_options(dict(self.options)), self.wires)


class FailingReader(StreamReader):
    def __init__(self, options: SourceOptions, wires: Path) -> None:
        super().__init__(options)
        self.wires = wires

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._trip("latestOffset")
        return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._trip("partitions")
        return super().partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self._trip("commit")
        super().commit(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch.slice(0, batch.num_rows // 2)
            self._trip("read")
            yield batch.slice(batch.num_rows // 2)

    def _trip(self, name: str) -> None:
        try:
            (self.wires / name).unlink()
        except FileNotFoundError:
            return
        raise RuntimeError(f"tripped in {name}")
