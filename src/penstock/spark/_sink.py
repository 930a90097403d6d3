"""The writers Spark calls: of batches and of streams, on Arrow.

Thin shells: options are checked in ``_sink_options``, columns in ``_sink_columns``, tasks run in ``_sink_tasks`` and,
where rows are written exactly once, ``_exactly_once``. Spark makes a writer in one process, pickles it to its tasks,
and makes another one to commit a stream's batch: what these must know travels in the messages. What must not live here:
anything that can be decided without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.errors import UsageError
from penstock.spark._sink_columns import check_columns
from penstock.spark._sink_options import SinkOptions, parse_sink_options
from penstock.spark._sink_rows import RowIds
from penstock.spark._sink_tasks import write_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "StreamWriter", "Written", "batch_writer", "stream_writer"]

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class Written(WriterCommitMessage):
    """What one task tells the driver: how many rows it wrote."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

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
    """What both writers are made of."""

    def __init__(self, options: SinkOptions, fields: Sequence[tuple[str, str]]) -> None:
        self.options = options
        self.columns = check_columns(fields, topic=options.topic)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Appends the rows of a DataFrame, at least once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(write_task(self.options, self.columns, iterator))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Appends the rows of one micro-batch, at least once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        ids = RowIds("/".join(map(str, _place()))) if self.options.dedup_headers else None
        return Written(write_task(self.options, self.columns, iterator, ids))


def _place() -> tuple[str, int, int]:
    """(query, batch, task): what is the same when a task of a stream is run again, whoever runs it."""
    context = TaskContext.get()
    assert context is not None
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if not query or not batch:
        raise UsageError("this task belongs to no streaming query")
    return query, int(batch), context.partitionId()


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
