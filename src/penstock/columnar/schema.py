"""Arrow schemas of records, and how a partition's records become the rows users and Spark see.

Types are exactly those Spark's Python data sources accept: plain ``binary`` and ``string``, microseconds in UTC,
everything nullable. What must not live here: decoding.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError

__all__ = [
    "COLUMNS",
    "CONSTANT_COLUMNS",
    "HEADERS_TYPE",
    "RECORD_COLUMNS",
    "TYPES",
    "assemble",
    "check_columns",
    "record_columns",
    "schema",
]

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    "node": pa.string(),
}
"""Type of each column: those of Spark's own Kafka source, in its order, then node."""

COLUMNS: Final = tuple(name for name in TYPES if name != "node")
"""What rows have by default, but for node: they have that where partitions belong to brokers with names."""
RECORD_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""The columns that differ from record to record."""
CONSTANT_COLUMNS: Final = ("topic", "partition", "node")
"""The columns that are the same for all records of a partition; `assemble` adds them."""


def schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of some ``columns``, in that order."""
    return _schema(tuple(columns))


@functools.lru_cache(maxsize=64)
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[name]) for name in check_columns(columns)])


def check_columns(columns: Sequence[str]) -> Sequence[str]:
    """Return ``columns``; raises UsageError for one that does not exist."""
    for name in columns:
        if name not in TYPES:
            raise UsageError(f"there is no column {name!r}", hint=f"Columns are {', '.join(TYPES)}")
    return columns


def record_columns(columns: Sequence[str] | None) -> list[str]:
    """Return those of ``columns`` that differ from record to record; None means all.

    Never nothing: a batch without columns would forget how many rows it has, so offsets stand in.
    """
    if columns is None:
        return list(RECORD_COLUMNS)
    return [name for name in check_columns(columns) if name in RECORD_COLUMNS] or ["offset"]


def assemble(
    batch: pa.RecordBatch, topic: str, partition: int, columns: Sequence[str] | None = None, node: str = ""
) -> pa.RecordBatch:
    """Return ``batch`` (record columns) with the constant columns topic, partition and node (null where it is "").

    ``columns`` says which columns and in what order; None stands for all that are there, in the order of `COLUMNS`,
    and for node where it is not "".
    """
    there = set(batch.schema.names)
    if columns is None:
        columns = [name for name in COLUMNS if name in there or name in CONSTANT_COLUMNS] + (["node"] if node else [])
    wanted = schema(columns)
    arrays = [_column(batch, name, topic, partition, node) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _column(batch: pa.RecordBatch, name: str, topic: str, partition: int, node: str) -> pa.Array:
    rows = batch.num_rows
    if name == "topic":
        return _repeat(topic.encode(), rows)
    if name == "partition":
        return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(np.full(rows, partition, np.int32))], 0)
    if name == "node":
        return _repeat(node.encode(), rows) if node else pa.nulls(rows, pa.string())
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise UsageError(f"column {name!r} was not decoded")
    return batch.column(index)


def _repeat(text: bytes, rows: int) -> pa.Array:
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(text * rows)])
