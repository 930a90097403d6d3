"""The readers that Spark calls: one for a batch, one for a stream, and one for a batch with filters.

They are thin shells: ``_follow`` decides for a stream, ``_bounded`` for a batch; `plan` cuts the ranges into tasks,
which run in ``_tasks``. Spark creates these objects many times in many processes and pickles them in between, so
constructors open nothing.
"""

from __future__ import annotations

import bisect
import itertools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from penstock.spark._bounded import Narrowed, bounded, check_for_batch, push
from penstock.spark._follow import Behind, Follower
from penstock.spark._launch import settings
from penstock.spark._log import Log
from penstock.spark._offsets import BatchOffset, Json
from penstock.spark._options import SourceOptions, TaskSizes
from penstock.spark._settings import Slots, slots, warn_once
from penstock.spark._tasks import ReadTask, read_task, spare_modules

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ROWS_WORTH_A_TASK", "BatchReader", "FilteringReader", "StreamReader", "batch_reader", "plan"]

# The ranges of each task: all ranges are laid end to end and cut into few pieces of equal size. Pure arithmetic.
#
# Every task costs Spark 15 to 50 ms, so on one machine many small partitions share a task; a large partition is cut so
# that all cores work. On a cluster, whose size is rarely known, each partition has at least one task, as with Spark's
# own connector. Ranges of partitions on the same node stay together, so that a task connects to few nodes.
ROWS_WORTH_A_TASK = 10_000
"""With fewer offsets than this, one more task takes longer to start than another task takes to read them."""

ROWS_THAT_FILL_A_TASK = 2_000_000
"""With more offsets than this per core there may be more tasks than cores, up to one per partition, because a failed
task is read again as a whole. If a cluster's cores are unknown, no task is larger than this."""

_SNAP = 10
"""A cut within a tenth of a task's size of a partition's edge moves to that edge. This saves connections, and two tasks
do not fetch and decode the same batch."""


def plan(
    ranges: Sequence[LogRange],
    *,
    slots: Slots,
    sizes: TaskSizes | None = None,
    leaders: Mapping[Partition, str] | None = None,
) -> list[tuple[LogRange, ...]]:
    """The ranges of each task; together every offset of ``ranges`` exactly once, without empty ranges or tasks.

    Makes ``sizes.at_least`` tasks if there are enough offsets. Without it at most ``slots.at_once``, or more with
    ``ROWS_THAT_FILL_A_TASK`` offsets each, up to one per partition. On a cluster never fewer than partitions. Never
    more than ``sizes.at_most``, unless a task would have more than ``sizes.max_records`` offsets. ``leaders`` names the
    node that serves a partition, if known.
    """
    known = leaders or {}
    filled = sorted(
        (each for each in ranges if each.start < each.end),
        key=lambda each: (
            known.get(Partition.of(each), each.node),
            each.topic,
            each.node,
            each.partition,
            each.start,
        ),
    )
    edges = [0]
    for each in filled:
        edges.append(edges[-1] + each.end - each.start)
    total = edges[-1]
    if not total:
        return []
    partitions = len({(each.topic, each.node, each.partition) for each in filled})
    wanted = sizes or TaskSizes()
    tasks = _task_count(total, partitions, slots, wanted)
    if slots.apart and tasks == len(filled) and wanted.max_records is None and _all_small(filled):
        return [(each,) for each in filled]  # equal sizes are not worth reading a partition in two tasks
    return _cut(filled, edges, _cuts(edges, total, tasks, exactly=wanted.max_records is not None))


def _task_count(total: int, partitions: int, slots: Slots, sizes: TaskSizes) -> int:
    """The number of tasks for ``total`` offsets in so many partitions."""
    full = total // ROWS_THAT_FILL_A_TASK
    if sizes.at_least is not None:
        tasks = sizes.at_least
    elif slots.at_once is None:
        tasks = full
    else:
        tasks = min(max(slots.at_once, min(partitions, full)), -(-total // ROWS_WORTH_A_TASK))
    tasks = min(max(tasks, partitions if slots.apart else 1), total)
    if sizes.at_most is not None:
        tasks = min(tasks, sizes.at_most)
    if sizes.max_records is not None:
        tasks = max(tasks, -(-total // sizes.max_records))
    return tasks


def _all_small(ranges: Sequence[LogRange]) -> bool:
    return all(each.end - each.start <= ROWS_WORTH_A_TASK for each in ranges)


def _cuts(edges: Sequence[int], total: int, tasks: int, *, exactly: bool) -> list[int]:
    """The starts of tasks as distances from the start of the first range; strictly increasing, from 0 to total."""
    slack = 0 if exactly else total // tasks // _SNAP
    cuts = [0]
    for task in range(1, tasks):
        ideal = total * task // tasks
        after = bisect.bisect_left(edges, ideal)
        nearest = min(edges[max(after - 1, 0) : after + 1], key=lambda edge: abs(edge - ideal))
        cuts.append(nearest if abs(nearest - ideal) <= slack else ideal)
    cuts.append(total)
    return cuts


def _cut(ranges: Sequence[LogRange], edges: Sequence[int], cuts: Sequence[int]) -> list[tuple[LogRange, ...]]:
    tasks: list[tuple[LogRange, ...]] = []
    at = 0
    for low, high in itertools.pairwise(cuts):
        pieces: list[LogRange] = []
        while at < len(ranges) and edges[at] < high:
            whole = ranges[at]
            start = whole.start + max(0, low - edges[at])
            end = whole.start + min(edges[at + 1], high) - edges[at]
            pieces.append(LogRange.of(Partition.of(whole), start, end, whole.topic_id))
            if edges[at + 1] > high:
                break
            at += 1
        tasks.append(tuple(pieces))
    return tasks


# ruff: noqa: N802 - the names of methods are Spark's


_FILTERING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_log = logging.getLogger("penstock.spark")


def batch_reader(options: SourceOptions) -> BatchReader:
    """The reader for this process.

    If filter pushdown is off, the default, Spark refuses every reader that accepts filters. If it is on, Spark creates
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
    """A batch read that skips records excluded by filters on topic, partition, offset and timestamp."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        scheme = self.options.address.partition("://")[0]
        self.narrowed, left = push(filters, exact_times=protocol(scheme).exact_times)
        return left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. The object that plans has its own process for one run; the objects that read are copies."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._followed: Follower | None = None
        self._behind: Behind | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_followed": None, "_behind": None}

    def initialOffset(self) -> dict[str, Json]:
        return self._follower.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark passes this to latestOffset as the limit, unless it wants everything at once.
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
        # Not from ``start``, which may differ from the batch's own start before the first batch is committed.
        del start
        batch = self._follower.planned(BatchOffset.from_json(end))
        return _tasks(batch, self.options, self._follower.leaders)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.options, _ranges(partition))

    def commit(self, end: dict[str, Json]) -> None:
        self._follower.commit(BatchOffset.from_json(end))

    def stop(self) -> None:
        # Spark ends the process of a stopped query without this call, so nothing may depend on it.
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
    # For a batch read without tasks, Spark passes an empty InputPartition.
    return partition.ranges if isinstance(partition, ReadTask) else ()


@cache
def _slots() -> Slots:
    """The slots of this process's Spark application; a process plans for one application only."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return slots(settings(), cores=cores)
