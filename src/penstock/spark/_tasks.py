"""A Spark task that reads: it reads its ranges one after the other and returns Arrow batches of a good size for Spark.

It runs in Spark's worker processes. They are reused for many tasks, but each task unpickles its own reader object, so
connections are kept in a module-level table.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition

from penstock.client import RangeReader
from penstock.config import OptionValue
from penstock.errors import LogTruncated, OffsetOutOfRange, ServerError, TopicRecreated
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.spark._columns import none_as_null, physical, with_extras
from penstock.spark._loss import Losses
from penstock.spark._options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_BYTES", "MOST_ROWS", "ReadTask", "read_task", "spare_modules"]

# Python's cyclic garbage collector in Spark's worker processes.
#
# Spark's daemon makes a worker collect garbage after each task, which visits every object of every imported module: 30
# to 60 ms with PySpark, pyarrow and numba, as much as a whole small task. Modules never become garbage, so their
# objects are exempted.
_DAEMON = "daemon.py"
_spared = {"modules": 0}


def spare_modules(program: str | None = None) -> None:
    """Exempt all current objects from collection if modules were imported since the last call; for the end of a task.

    Current objects that later become part of a reference cycle stay until the process ends; that happens once per
    process, and again if a later task imports something. Existing garbage is collected first.
    """
    here = Path(sys.argv[0] if program is None else program).name == _DAEMON
    if here and len(sys.modules) > _spared["modules"]:
        gc.collect()
        gc.freeze()
        _spared["modules"] = len(sys.modules)


MOST_ROWS = 16_384
"""Rows of one Arrow batch: 4,000 to 200,000 are equally fast, and each is held twice in Python and once in the JVM."""

MOST_BYTES = 2 << 20
"""Bytes of one Arrow batch, about: larger ones cost the JVM up to a tenth more, as they outgrow its buffer pools."""

_FEW_ROWS = 4_096
_FEW_BYTES = 512 * 1024
"""Responses with fewer rows and bytes are merged: sixteen batches of a hundred rows cost the JVM more than one."""

_MOST_KEPT = 8
"""Logs whose connections are kept; a worker serves the tasks of one application."""

_readers: dict[tuple[str, tuple[tuple[str, OptionValue], ...]], RangeReader] = {}


class ReadTask(InputPartition):
    """The ranges of one task. Everything a task needs beyond the source's options travels in here."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)

    def __repr__(self) -> str:
        return f"ReadTask({', '.join(f'{Partition.of(each)}[{each.start}:{each.end}]' for each in self.ranges)})"


def read_task(options: SourceOptions, ranges: Sequence[LogRange]) -> Iterator[pa.RecordBatch]:
    """The records of ``ranges`` as batches of at most ``MOST_ROWS`` rows with exactly ``options.columns``.

    May run several times, also in parallel (retries, speculation). Raises the client's errors; records that were
    deleted since they were planned raise DataLoss; with ``failOnDataLoss=warn`` they are left out with a warning.
    """
    if not ranges:
        return
    # The driver has already found the log, so a server that does not respond to a task is only briefly unavailable.
    patience = dict.fromkeys(("api_timeout_ms", "first_contact_timeout_ms"), options.poll_timeout_ms)
    client = {**patience, **options.client}
    key = (options.address, tuple(sorted(client.items())))
    # Taken out while in use: if the task fails or is stopped during a response (a LIMIT), the connection is not put
    # back, and so not used again.
    reader = _readers.pop(key, None) or RangeReader(options.address, **client)
    losses = Losses(fail=options.fail_on_data_loss)
    finished = False
    try:
        tables = (table for wanted in ranges for table in _read_range(reader, wanted, options, losses))
        for table in _gathered(tables):
            for batch in _batches(table):
                yield with_extras(none_as_null(batch), options.columns, options.extras)
        finished = True
    finally:
        if finished:
            _readers[key] = reader
            while len(_readers) > _MOST_KEPT:
                _readers.pop(next(iter(_readers))).close()
        else:
            reader.close()
        spare_modules()


@atexit.register
def close_kept() -> None:
    """Close the kept connections."""
    while _readers:
        _readers.popitem()[1].close()


def _read_range(reader: RangeReader, wanted: LogRange, options: SourceOptions, losses: Losses) -> Iterator[pa.Table]:
    """The rows of each response, with the columns to read."""
    partition = Partition.of(wanted)
    columns = physical(options.columns, options.extras)
    position = wanted.start
    while position < wanted.end:
        try:
            for messages in reader.read(replace(wanted, start=position), columns=columns):
                yield messages.to_arrow(columns)
                position = messages.next_offsets[partition]
        except LogTruncated as error:
            # The next batch is planned from where the log diverged.
            losses.report(partition, position, wanted.end - position, error.message)
            return
        except TopicRecreated as error:
            # The next batch begins with the new topic's first records.
            losses.report(partition, position, wanted.end - position, error.message)
            return
        except OffsetOutOfRange:
            first = reader.offsets({partition: OffsetSpec(name=Offset.EARLIEST)})[partition].offset
            # If the log starts at or before ``position``, it has become too short, and nothing is left to read.
            following = min(first, wanted.end) if first > position else wanted.end
            why = f"the log now starts at {first}" if first > position else "the log ends before"
            lost = following - position
            losses.report(partition, position, lost, f"{lost} offsets up to {following} are gone: {why}")
            position = following
        except ServerError:
            if _exists(reader, partition):
                raise
            lost = wanted.end - position
            losses.report(partition, position, lost, f"{lost} offsets; the partition is gone")
            return
        else:
            return


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in the same order; consecutive small tables are merged, large ones are not copied."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        more_rows, more = table.num_rows, table.get_total_buffer_size()
        if waiting and not _few(more_rows, more):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(table)
        rows, size = rows + more_rows, size + more
        if not _few(rows, size):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _few(rows: int, size: int) -> bool:
    return rows < _FEW_ROWS and size < _FEW_BYTES


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """``rows`` in the fewest batches of equal size with at most MOST_ROWS rows and about MOST_BYTES bytes each.

    Of equal size, because a small remainder would cost the JVM as much as a full batch before its first row is read.
    """
    batches = max(-(-rows.num_rows // MOST_ROWS), -(-rows.get_total_buffer_size() // MOST_BYTES), 1)
    yield from rows.to_batches(max_chunksize=max(-(-rows.num_rows // batches), 1))


def _exists(reader: RangeReader, partition: Partition) -> bool:
    topic = reader.topics([partition.topic]).get(partition.topic)
    return topic is not None and any(info.partition == partition for info in topic.partitions)
