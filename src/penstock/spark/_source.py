"""``format("penstock")``: the class that Spark looks up, its batch reader and its streaming reader.

Thin shells: options are parsed in ``_options``, a stream's decisions are ``_follow``'s, tasks are cut in ``_planning``
and run in ``_tasks``. Spark makes these objects many times in many processes and pickles them between: constructors
open nothing. Method names are Spark's. What must not live here: anything that can be decided without Spark.
"""

# ruff: noqa: N802 - the names of methods are Spark's

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.errors import ConfigError
from penstock.model import LogRange, Partition
from penstock.spark._bounded import bounded
from penstock.spark._columns import KNOWN, ddl
from penstock.spark._follow import Follower
from penstock.spark._log import Log
from penstock.spark._offsets import BatchOffset, Json
from penstock.spark._options import SourceOptions, parse_options
from penstock.spark._planning import plan
from penstock.spark._starts import check_all_exist
from penstock.spark._tasks import ReadTask, read_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["PenstockDataSource"]


class PenstockDataSource(DataSource):
    """Reads partitioned message logs, with the columns and options of Spark's own Kafka source (see ``_options``)."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return ddl(self._options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._options(schema)
        if options.ending is not None:
            raise ConfigError("endingOffsets has no meaning for a stream", hint="Remove it, or use spark.read")
        return StreamReader(options)

    def _options(self, schema: StructType | None = None) -> SourceOptions:
        # Not in the constructor: a DataSource is also made for writing, which has other options.
        options = parse_options(dict(self.options))
        if schema is not None:
            given = [(field.name, field.dataType.simpleString()) for field in schema.fields]
            if given != [(name, _simple(KNOWN[name])) for name in options.columns]:
                raise ConfigError(
                    "the schema of a log is given: " + ddl(options.columns),
                    hint='Leave out .schema(…); the option "columns" chooses among the columns',
                )
        return options


class BatchReader(DataSourceReader):
    """One batch read: from the starting offsets (earliest by default) to the ending offsets (latest)."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        with Log(self.options) as log:
            leaders = log.leaders()
            check_all_exist(self.options.topics, self.options.assigned, leaders)
            wanted = bounded(self.options, log.earliest(leaders), log.latest(leaders))
        return _tasks(wanted, self.options, leaders)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self.options, _ranges(partition))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. The object that plans lives in a process of its own for one run; those that read are copies."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._followed: Follower | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_followed": None}

    def initialOffset(self) -> dict[str, Json]:
        return self._follower.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._follower.freeze()

    def latestOffset(self, start: dict[str, Json], limit: ReadLimit) -> dict[str, Json]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        batch = self._follower.next_batch(BatchOffset.from_json(start), rows)
        return start if batch is None else batch.to_json()

    def reportLatestOffset(self) -> dict[str, Json] | None:
        backlog = self._follower.backlog
        return None if backlog is None else backlog.to_json()

    def partitions(self, start: dict[str, Json], end: dict[str, Json]) -> list[InputPartition]:
        # Not from ``start``: before the first batch is committed it may be another one than the batch was made with.
        del start
        return _tasks(BatchOffset.from_json(end), self.options, self._follower.leaders)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self.options, _ranges(partition))

    def commit(self, end: dict[str, Json]) -> None:
        self._follower.commit(BatchOffset.from_json(end))

    @property
    def _follower(self) -> Follower:
        if self._followed is None:
            self._followed = Follower(self.options, Log(self.options))
        return self._followed


def _simple(type_name: str) -> str:
    """Spark's own short form of a DDL type."""
    return type_name.replace("struct<key string, value binary>", "struct<key:string,value:binary>")


def _tasks(wanted: BatchOffset, options: SourceOptions, leaders: Mapping[Partition, str]) -> list[InputPartition]:
    tasks = plan(wanted.ranges(), parallelism=_cores(), min_partitions=options.min_partitions, leaders=leaders)
    return [ReadTask(ranges) for ranges in tasks]


def _ranges(partition: InputPartition) -> tuple[LogRange, ...]:
    # A batch read without tasks gets one from Spark, with nothing in it.
    return partition.ranges if isinstance(partition, ReadTask) else ()


def _cores() -> int:
    """Cores of the machine that plans; of a cluster's executors nothing is known here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
