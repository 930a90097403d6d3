"""The writers that Spark calls, for batches and for streams, on Arrow.

Options are checked in ``_sink_options``, columns in ``_sink_rows``; tasks run here and, for exactly-once, in
``_sink_once``. Spark creates a writer in one process, pickles it for its tasks, and creates another one to commit a
stream's batch, so all state for the commit is in the tasks' messages.
"""

from __future__ import annotations

import atexit
import logging
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.client import BatchDelivery, Producer
from penstock.config import OptionValue
from penstock.errors import PenstockError, UsageError
from penstock.spark._sink_once import Place, Report, abort, commit, run_task
from penstock.spark._sink_options import SinkOptions, parse_sink_options
from penstock.spark._sink_rows import Columns, RowIds, by_topic, check_columns, with_row_ids
from penstock.spark._sink_transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "MOST_PRODUCERS",
    "BatchWriter",
    "StreamWriter",
    "Written",
    "batch_writer",
    "close_kept",
    "send_all",
    "stream_writer",
    "write_task",
]

# A Spark task that writes: it sends its batches with a producer, waits until every row is stored, and returns their
# number.
#
# It runs in Spark's worker processes, which are reused for many tasks. So producers, with their connections and their
# producer ids, are kept in a module-level table.
MOST_PRODUCERS = 4
"""Producers kept per worker process; with more combinations of cluster and options, tasks reconnect."""

_Key = tuple[str, tuple[tuple[str, OptionValue], ...]]
_producers: dict[_Key, Producer] = {}


def write_task(
    options: SinkOptions, columns: Columns, batches: Iterable[pa.RecordBatch], ids: RowIds | None = None
) -> int:
    """Write all rows; returns their number when all are acknowledged. At least once: a retry writes them again.

    Raises the producer's error; the rest of the task is then not sent, and rows that were sent stay written.
    """
    key = (options.address, tuple(sorted(options.client.items())))
    # Taken out while in use. If the task fails, the producer is not put back, and so not used again.
    producer = _producers.pop(key, None) or Producer(options.address, **options.patient)
    try:
        rows = send_all(producer, options, columns, batches, ids)
    except BaseException:
        # A failed task must not send its waiting rows, because the next attempt sends them.
        with suppress(PenstockError):
            producer.close(timeout_s=0)
        raise
    _keep(key, producer)
    return rows


def send_all(
    producer: Producer,
    options: SinkOptions,
    columns: Columns,
    batches: Iterable[pa.RecordBatch],
    ids: RowIds | None = None,
) -> int:
    """Send all rows and wait until they are stored. Raises the first error, as soon as it is known."""
    waiting: deque[BatchDelivery] = deque()
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for topic, part in by_topic(batch, columns, options.topic):
            waiting.append(producer.send_batch(topic, part if ids is None else with_row_ids(part, ids)))
        while waiting and waiting[0].done():
            waiting.popleft().result()
    producer.flush()
    for delivery in waiting:
        delivery.result()
    return rows


@atexit.register
def close_kept() -> None:
    """Close the kept producers, which have no waiting rows."""
    while _producers:
        _producers.popitem()[1].close(timeout_s=0)


def _keep(key: _Key, producer: Producer) -> None:
    _producers[key] = producer
    while len(_producers) > MOST_PRODUCERS:
        oldest = next(iter(_producers))
        _producers.pop(oldest).close()


_log = logging.getLogger("penstock.spark")
_said: set[tuple[str, ...]] = set()
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class Written(WriterCommitMessage):
    """A task's message to the driver: the number of rows written; with exactly-once, the prepared transaction."""

    def __init__(self, rows: int, report: Report | None = None) -> None:
        self.rows = rows
        self.report = report

    def __repr__(self) -> str:
        return f"Written(rows={self.rows})"


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of one ``df.write``. Raises ConfigError, UsageError."""
    if overwrite:
        raise UsageError(
            "a log cannot be overwritten",
            hint='Use .mode("append"); delete the topic\'s records or the topic itself by `penstock topics`',
        )
    parsed = parse_sink_options(options)
    if parsed.dedup_headers:
        raise UsageError("dedupHeaders are for streams: only they have a query id and batch numbers", hint="Remove it")
    return BatchWriter(parsed, _fields(schema))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of one micro-batch. Raises ConfigError, UsageError.

    ``overwrite`` is output mode complete: every batch appends the whole result again, as in Spark's sink.
    """
    del overwrite
    parsed = parse_sink_options(options)
    if parsed.app is not None:
        raise UsageError("txnAppId is for batch writes", hint="A stream's query id and batch number are used instead")
    return StreamWriter(parsed, _fields(schema))


class _Writer:
    """The common part of both writers."""

    def __init__(self, options: SinkOptions, fields: Sequence[tuple[str, str]]) -> None:
        self.options = options
        self.columns = check_columns(fields, topic=options.topic)
        _warn_left_out(options)

    def _write(self, place: Place, batches: Iterator[pa.RecordBatch]) -> Written:
        if not self.options.exactly_once:
            ids = RowIds(f"{place.query}/{place.batch}/{place.task}") if self.options.dedup_headers else None
            return Written(write_task(self.options, self.columns, batches, ids))
        with Transactions(self.options) as log:
            report = run_task(log, place, lambda: log.write(place.query, place.task, self.columns, batches))
        for _ in batches:
            pass  # the rows are stored already, but must be read, or the JVM's pipe would block
        return Written(report.slot.rows if report.slot else 0, report)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.options.exactly_once:
            with Transactions(self.options) as log:
                commit(log, _reports(messages))

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not self.options.exactly_once:
            return
        try:
            with Transactions(self.options) as log:
                abort(log, [message.report if isinstance(message, Written) else None for message in messages])
        except PenstockError as error:
            # The query fails anyway, with a better error; the log's timeout aborts the rest.
            _log.warning("a failed batch's transactions could not be aborted: %s", error)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Appends the rows of a DataFrame."""

    def __init__(self, options: SinkOptions, fields: Sequence[tuple[str, str]]) -> None:
        super().__init__(options, fields)
        # Here, so that it is the same in tasks and commit: Spark pickles this object for both.
        self._unnamed = f"write-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if self.options.app is None:
            place = Place(self._unnamed, 0, context.partitionId(), unnamed=True)
        else:
            name, version = self.options.app
            place = Place(f"app-{name}", version, context.partitionId(), skip_older=True)
        return self._write(place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Appends the rows of one micro-batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(_place(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._abort(messages)


def _warn_left_out(options: SinkOptions) -> None:
    # Only once, because a stream creates a writer for every batch, in the same process.
    if options.left_out and options.left_out not in _said:
        _said.add(options.left_out)
        _log.warning("ignoring options that only a Java client has: kafka.%s", ", kafka.".join(options.left_out))


def _place() -> Place:
    """The identity of a task of a stream, the same for every attempt."""
    context = TaskContext.get()
    assert context is not None
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if not query or not batch:
        raise UsageError("this task belongs to no streaming query")
    return Place(query, int(batch), context.partitionId())


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[Report]:
    return [message.report for message in messages if isinstance(message, Written) and message.report is not None]


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
