"""The columns that Spark gets: those of Spark's own Kafka source, node, and single headers.

Neither Arrow nor Spark is imported before columns are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DEFAULT",
    "HEADERS",
    "KNOWN",
    "NODE",
    "PREFIX",
    "Extra",
    "default_columns",
    "none_as_null",
    "physical",
    "with_extras",
]

KNOWN = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key string, value binary>>",
    "node": "string",
}
"""Spark's type of every column that can be read (Structured Streaming + Kafka Integration Guide; node is ours)."""

HEADERS = "headers"
NODE = "node"
"""The broker of the partition, null if partitions do not belong to brokers."""

DEFAULT = tuple(name for name in KNOWN if name not in {HEADERS, NODE})


def default_columns(*, named_nodes: bool) -> tuple[str, ...]:
    """The columns of a read that names none. With brokers' own partitions, node is needed to identify a row.

    >>> default_columns(named_nodes=True)[-2:]
    ('timestampType', 'node')
    """
    return (*DEFAULT, NODE) if named_nodes else DEFAULT


# Headers in Spark: all headers of a record in one column, or single ones in columns of their own.
#
# ``columns=value,header:trace-id`` reads the header ``trace-id`` into a binary column of that name. A protocol's own
# columns (a tag, a stream id) are text, carried in headers of fixed names (`penstock.interfaces.WireProtocol`). If a
# record has a name twice, the last one counts, as for Kafka's ``lastHeader``.
PREFIX = "header:"


class Extra(Struct, frozen=True):
    """A column with a header's values; ``type`` is Spark's: binary or string."""

    header: str
    type: str


def physical(columns: Sequence[str], extras: Mapping[str, Extra]) -> tuple[str, ...]:
    """The columns to read so that ``with_extras`` can make ``columns`` from them."""
    plain = tuple(name for name in columns if name not in extras)
    return plain if len(plain) == len(columns) or HEADERS in plain else (*plain, HEADERS)


def with_extras(batch: pa.RecordBatch, columns: Sequence[str], extras: Mapping[str, Extra]) -> pa.RecordBatch:
    """Make ``columns``, in their order, from a batch that has ``physical(columns)``."""
    import pyarrow as pa

    if not extras:
        return batch
    headers = batch.column(batch.schema.get_field_index(HEADERS))
    arrays = [
        _column(headers, extras[name]) if name in extras else batch.column(batch.schema.get_field_index(name))
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def none_as_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with null in column ``headers`` for records without headers; names and values are not copied.

    Spark's own Kafka source has null there too, not an empty array.
    """
    import numpy as np
    import pyarrow as pa

    at = batch.schema.get_field_index(HEADERS)
    if at < 0:
        return batch
    column = batch.column(at)
    offsets = np.array(column.offsets, dtype=np.int32)
    none = offsets[1:] == offsets[:-1]
    if not none.any():
        return batch
    # Already null, or empty.
    made = pa.ListArray.from_arrays(pa.array(offsets), column.values, type=column.type, mask=pa.array(none))
    return batch.set_column(at, batch.schema.field(at), made)


def _column(headers: pa.ListArray, extra: Extra) -> pa.Array:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = np.asarray(headers.offsets)
    names, values = headers.values.field(0), headers.values.field(1)
    begin, end = int(offsets[0]), int(offsets[-1])
    named = np.asarray(pc.equal(names.slice(begin, end - begin), extra.header).fill_null(False))
    found = np.flatnonzero(named) + begin
    at = np.full(len(headers), -1, np.int64)
    at[np.searchsorted(offsets, found, side="right") - 1] = found  # in order, so the last one of a record wins
    taken = values.take(pa.array(at, mask=at < 0))
    if extra.type == "binary":
        return taken
    try:
        return taken.cast(pa.string())
    except pa.ArrowInvalid:  # another writer put bytes into a header with the protocol's name
        return pa.array([None if each is None else each.decode(errors="replace") for each in taken.to_pylist()])
