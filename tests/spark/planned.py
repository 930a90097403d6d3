"""A stream that says who planned it; and a program of two of them, which prints who keeps their planners.

What must not live here: assertions.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.spark._launch import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Planners = list[tuple[int, int, str]]


class Planned(DataSource):
    """One row: the process that plans, its parent, and the master it sees."""

    @classmethod
    def name(cls) -> str:
        return "planned"

    def schema(self) -> str:
        return "pid int, parent int, master string"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        fails = self.options.get("fails")

        class Who(InputPartition):
            def __init__(self) -> None:
                self.pid, self.parent = os.getpid(), os.getppid()
                self.master = (settings() or {}).get("spark.master")

        class Reader(DataSourceStreamReader):
            def initialOffset(self) -> dict[str, int]:  # noqa: N802
                if fails:
                    raise ValueError(fails)
                return {"at": 0}

            def latestOffset(self) -> dict[str, int]:  # noqa: N802
                return {"at": 1}

            def partitions(self, start: object, end: object) -> list[InputPartition]:
                return [Who()]

            def read(self, partition: Who) -> Iterator[tuple[int, int, str | None]]:  # type: ignore[override]
                yield partition.pid, partition.parent, partition.master

            def commit(self, end: object) -> None:
                pass

        return Reader()


def start(spark: SparkSession, folder: Path, found: Planners, **options: str) -> StreamingQuery:
    frame = spark.readStream.format("planned").options(**options).load()
    keep = frame.writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
    return keep.option("checkpointLocation", str(folder)).start()


def main(folder: str) -> None:
    import penstock.spark
    from tests.spark.sessions import CONF

    spark = penstock.spark.session("planned", "local[2]", **CONF)
    spark.dataSource.register(Planned)
    found: Planners = []
    for name in ("a", "b"):
        query = start(spark, Path(folder, name), found)
        query.processAllAvailable()
        query.stop()
    print("keeper", found[-1][1])
    spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
