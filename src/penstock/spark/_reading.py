"""The readers that Spark calls: one for a batch, one for a stream, and one for a batch with filters.

Thin shells: ``_follow`` decides for a stream, ``_bounded`` for a batch, tasks are cut in ``_planning`` and run in
``_tasks``. Spark makes these objects many times in many processes and pickles them in between: constructors open
nothing. What must not live here: anything that can be decided without Spark.
"""

# ruff: noqa: N802 - the names of methods are Spark's

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.model import LogRange, Partition
from penstock.protocols import protocol
from penstock.spark._advice import warn_once
from penstock.spark._behind import Behind
from penstock.spark._bounded import bounded, check_for_batch
from penstock.spark._cluster import Slots, slots
from penstock.spark._follow import Follower
from penstock.spark._garbage import spare_modules
from penstock.spark._launch import settings
from penstock.spark._log import Log
from penstock.spark._offsets import BatchOffset, Json
from penstock.spark._options import SourceOptions
from penstock.spark._planning import plan
from penstock.spark._pushdown import Narrowed, push
from penstock.spark._tasks import ReadTask, read_task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchReader", "FilteringReader", "StreamReader", "batch_reader"]

_FILTERING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_log = logging.getLogger("penstock.spark")


def batch_reader(options: SourceOptions) -> BatchReader:
    """The reader for this process.

    If filter pushdown is off, the default, Spark refuses every reader that could take filters; if it is on, Spark makes
    the reader in a special worker program. So the program decides.
    """
    return FilteringReader(options) if _FILTERING_WORKER in sys.modules else BatchReader(options)


class BatchReader(DataSourceReader):
    """One batch read: from the starting offsets (earliest by default) to the ending offsets (latest)."""

    def __init__(self, options: SourceOptions) -> None:
        check_for_batch(options)
        self.options = options
        self.narrowed: Narrowed | None = None

    def partitions(self) -> list[InputPartition]:
        _warn_about_options(self.options)
        with Log(self.options) as log:
            leaders = log.leaders()
            wanted = bounded(self.options, log, leaders)
            if self.narrowed is not None:
                wanted = self.narrowed.apply(wanted, log)
        spare_modules()
        return _tasks(wanted, self.options, leaders)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.options, _ranges(partition))


class FilteringReader(BatchReader):
    """A batch read that skips what filters on topic, partition, offset and timestamp exclude."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        scheme = self.options.address.partition("://")[0]
        self.narrowed, left = push(filters, exact_times=protocol(scheme).exact_times)
        return left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. The object that plans lives in its own process for one run; those that read are copies."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._followed: Follower | None = None
        self._behind: Behind | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_followed": None, "_behind": None}

    def initialOffset(self) -> dict[str, Json]:
        return self._follower.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # This comes back as the limit of latestOffset, unless Spark wants everything at once.
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMinRows(limits.min_offsets or 1) if limits.given else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._follower.freeze()

    def latestOffset(self, start: dict[str, Json], limit: ReadLimit) -> dict[str, Json]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        everything = isinstance(limit, ReadAllAvailable)
        batch = self._follower.next_batch(BatchOffset.from_json(start), rows, everything=everything)
        return start if batch is None else batch.to_json()

    def reportLatestOffset(self) -> dict[str, Json] | None:
        follower = self._follower
        if self._behind is None:
            self._behind = Behind(follower, follower.log)
        return self._behind.report()

    def partitions(self, start: dict[str, Json], end: dict[str, Json]) -> list[InputPartition]:
        # Not from ``start``: before the first batch is committed, it may differ from that of the batch itself.
        del start
        batch = self._follower.planned(BatchOffset.from_json(end))
        return _tasks(batch, self.options, self._follower.leaders)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.options, _ranges(partition))

    def commit(self, end: dict[str, Json]) -> None:
        self._follower.commit(BatchOffset.from_json(end))

    def stop(self) -> None:
        # When a query is stopped, Spark ends its process without this call: nothing may depend on it.
        if self._followed is not None:
            self._followed.log.close()

    @property
    def _follower(self) -> Follower:
        if self._followed is None:
            _warn_about_options(self.options)
            self._followed = Follower(self.options, Log(self.options))
        return self._followed


def _read(options: SourceOptions, ranges: tuple[LogRange, ...]) -> Iterator[pa.RecordBatch]:
    if options.decoding is None:
        return read_task(options, ranges)
    from penstock.spark._bad_records import read_decoded  # here, so that decoders are imported only for decoding

    return read_decoded(options, options.decoding, ranges)


def _warn_about_options(options: SourceOptions) -> None:
    warn_once()
    if options.left_out:
        _log.warning("ignoring options that only a Java client has: kafka.%s", ", kafka.".join(options.left_out))
    for name, winner in options.overruled.items():
        _log.warning("%s has no effect beside %s", name, winner)


def _tasks(wanted: BatchOffset, options: SourceOptions, leaders: Mapping[Partition, str]) -> list[InputPartition]:
    at_once = options.sizes.at_once
    found = _slots() if at_once is None else Slots(at_once, apart=False)
    tasks = plan(wanted.ranges(), slots=found, sizes=options.sizes, leaders=leaders)
    return [ReadTask(ranges) for ranges in tasks]


def _ranges(partition: InputPartition) -> tuple[LogRange, ...]:
    # Spark gives a batch read without tasks an empty one.
    return partition.ranges if isinstance(partition, ReadTask) else ()


@cache
def _slots() -> Slots:
    """Where the tasks of this process's plans run; it plans for one Spark application only."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return slots(settings(), cores=cores)
