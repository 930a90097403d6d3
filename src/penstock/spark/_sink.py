"""The writers that Spark calls, for batches and for streams, on Arrow.

Thin shells: options are checked in ``_sink_options``, columns in ``_sink_columns``; tasks run in ``_sink_tasks`` and,
for exactly-once, ``_sink_once``. Spark makes a writer in one process, pickles it for its tasks, and makes another one
to commit a stream's batch: what these must know travels in the messages. What must not live here: anything that can be
decided without Spark.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.errors import PenstockError, UsageError
from penstock.spark._sink_columns import check_columns
from penstock.spark._sink_once import Place, Report, abort, commit, run_task
from penstock.spark._sink_options import SinkOptions, parse_sink_options
from penstock.spark._sink_rows import RowIds
from penstock.spark._sink_tasks import write_task
from penstock.spark._sink_transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "StreamWriter", "Written", "batch_writer", "stream_writer"]

_log = logging.getLogger("penstock.spark")
_said: set[tuple[str, ...]] = set()
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class Written(WriterCommitMessage):
    """What one task tells the driver: how many rows it has written; with exactly-once, what it has prepared."""

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

    ``overwrite`` is output mode complete: the whole result is appended again with every batch, as Spark's sink does.
    """
    del overwrite
    parsed = parse_sink_options(options)
    if parsed.app is not None:
        raise UsageError("txnAppId is for batch writes", hint="A stream's query id and batch number are used instead")
    return StreamWriter(parsed, _fields(schema))


class _Writer:
    """What both writers do."""

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
            pass  # these rows are stored already; read them, or the JVM's pipe would block
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
            # The query fails anyway, with a better error; the log's timeout aborts what is left.
            _log.warning("a failed batch's transactions could not be aborted: %s", error)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Appends the rows of a DataFrame."""

    def __init__(self, options: SinkOptions, fields: Sequence[tuple[str, str]]) -> None:
        super().__init__(options, fields)
        # Made once: Spark pickles this object for the tasks and for the commit.
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
    # Once: a stream makes a writer for every batch, in the same process.
    if options.left_out and options.left_out not in _said:
        _said.add(options.left_out)
        _log.warning("ignoring options that only a Java client has: kafka.%s", ", kafka.".join(options.left_out))


def _place() -> Place:
    """What identifies a task of a stream, the same for every attempt."""
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
