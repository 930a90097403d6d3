"""Arrow schemas of records, arrays over buffers that kernels have filled, and users' columns as input for kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from penstock.errors import UsageError
from penstock.kernels.interface import SLACK_BYTES, Int32s, Int64s, Kernel
from penstock.records.batch import Bytes

__all__ = [
    "COLUMNS",
    "CONSTANT_COLUMNS",
    "HEADERS_TYPE",
    "RECORD_COLUMNS",
    "TYPES",
    "Binary",
    "Pieces",
    "assemble",
    "binary",
    "binary_array",
    "binary_input",
    "binary_over",
    "check_columns",
    "column_of",
    "headers",
    "headers_array",
    "headers_input",
    "headers_over",
    "integers_of",
    "longest",
    "number_array",
    "pool_int32s",
    "pool_int64s",
    "record_columns",
    "schema",
    "timestamps_of",
    "valid_of",
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
"""The type of each column: those of Spark's own Kafka source in its order, then node."""

COLUMNS: Final = tuple(name for name in TYPES if name != "node")
"""The default columns of rows. Where partitions belong to named brokers, node is added."""
RECORD_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""The columns that differ from record to record."""
CONSTANT_COLUMNS: Final = ("topic", "partition", "node")
"""The columns that are the same for all records of a partition; `assemble` adds them."""


def schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of ``columns``, in that order."""
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

    The result is never empty: a batch without columns would lose its number of rows, so it is ``offset`` then.
    """
    if columns is None:
        return list(RECORD_COLUMNS)
    return [name for name in check_columns(columns) if name in RECORD_COLUMNS] or ["offset"]


def assemble(
    batch: pa.RecordBatch, topic: str, partition: int, columns: Sequence[str] | None = None, node: str = ""
) -> pa.RecordBatch:
    """Return ``batch`` (record columns) with the constant columns topic, partition and node (null if it is "").

    ``columns`` says which columns and in which order. None means all that exist, in the order of `COLUMNS`, and then
    node if it is not "".
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


# Arrow arrays over buffers that kernels have filled, allocated from Arrow's memory pool.
#
# They are made with ``from_buffers`` only: ``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas if it is
# installed, which costs 0.2 s and 40 MB.
_BINARY = pa.binary()

_NO_PAIRS = pa.nulls(0, HEADERS_TYPE.value_type)

Pieces = Sequence[tuple[Bytes, int, int]]
"""Data arrays with the rows whose positions point into them: (data, first row, row after the last)."""


def pool_int32s(size: int) -> Int32s:
    """Return an uninitialised array over an Arrow buffer."""
    return np.frombuffer(pa.allocate_buffer(4 * size), np.int32)


def pool_int64s(size: int) -> Int64s:
    """Return an uninitialised array over an Arrow buffer."""
    return np.frombuffer(pa.allocate_buffer(8 * size), np.int64)


def number_array(
    kind: pa.DataType, rows: int, values: Int32s | Int64s, valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an array of a fixed-width type over the first ``rows`` of ``values``, without copying."""
    bitmap = None if valid is None else _bitmap(valid)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(values)])


def binary_array(parts: Sequence[bytes | memoryview | None], kind: pa.DataType = _BINARY) -> pa.Array:
    """Return the ``parts`` as a binary (or string) array; None is null.

    Raises TypeError for values that are not bytes.
    """
    rows, nulls = len(parts), 0
    try:
        data = b"".join(cast("Sequence[bytes]", parts))
        lengths: Iterable[int] = map(len, cast("Sequence[bytes]", parts))  # no Python frame per record
    except TypeError:  # there is a null; most columns have none, so it is not looked for first
        nulls = parts.count(None)
        data = b"".join(filter(None, parts))
        lengths = (0 if part is None else len(part) for part in parts)
    if nulls == rows:
        return pa.nulls(rows, kind)
    ends = np.empty(rows + 1, np.int32)
    ends[0] = 0
    np.fromiter(lengths, np.int32, rows).cumsum(out=ends[1:])
    bitmap = _bitmap(np.fromiter((part is not None for part in parts), np.bool_, rows)) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(ends), pa.py_buffer(data)], nulls)


def headers_array(rows: Sequence[Sequence[tuple[str, bytes | None]]]) -> pa.Array:
    """Return a headers column."""
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, rows), np.int32, len(rows)), out=ends[1:])
    names = binary_array([name.encode() for row in rows for name, _ in row], pa.string())
    values = binary_array([value for row in rows for _, value in row])
    return headers_over(names, values, ends, len(rows))


def binary(kernel: Kernel, kind: pa.DataType, pieces: Pieces, at: Int32s, ends: Int32s) -> pa.Array:
    """Copy the bytes described by ``at`` and ``ends`` into a new binary or string array; -1 in ``at`` is null."""
    rows = pieces[-1][2] if pieces else 0
    if len(pieces) == 1:
        data, first, last = pieces[0]
        found = kernel.gathered(data, at, ends, first, last)
        if found is not None:
            return binary_over(kind, rows, at, ends, pa.py_buffer(found))
    total = int(ends[rows])
    buffer = pa.allocate_buffer(total + SLACK_BYTES, resizable=True)
    out = np.frombuffer(buffer, np.uint8)
    for data, first, last in pieces:
        kernel.gather(data, at, ends, first, last, out)
    return binary_over(kind, rows, at, ends, buffer.slice(0, total))


def binary_over(kind: pa.DataType, rows: int, at: Int32s, ends: Int32s, buffer: pa.Buffer) -> pa.Array:
    """Return a binary or string array over bytes that are in place; -1 in ``at`` is null."""
    nulls = 0
    bitmap = None
    if rows and int(at[:rows].min()) < 0:
        valid = at[:rows] >= 0
        nulls = rows - int(np.count_nonzero(valid))
        bitmap = _bitmap(valid)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(ends), buffer], nulls)


def headers(kernel: Kernel, pieces: Pieces, header_at: Int32s, header_ends: Int32s) -> pa.Array:
    """Build the headers column from the start and the number of each record's headers."""
    rows = pieces[-1][2] if pieces else 0
    total = int(header_ends[rows])
    if not total:
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(header_ends)], 0, children=[_NO_PAIRS])
    name_at, value_at = np.empty(total, np.int32), np.empty(total, np.int32)
    name_ends, value_ends = pool_int32s(total + 1), pool_int32s(total + 1)
    name_ends[0] = value_ends[0] = 0
    for data, first, last in pieces:
        kernel.walk_headers(data, header_at, header_ends, first, last, name_at, name_ends, value_at, value_ends)
    inner = [(data, int(header_ends[first]), int(header_ends[last])) for data, first, last in pieces]
    names = binary(kernel, pa.string(), inner, name_at, name_ends)
    values = binary(kernel, pa.binary(), inner, value_at, value_ends)
    return headers_over(names, values, header_ends, rows)


def headers_over(names: pa.Array, values: pa.Array, ends: Int32s, rows: int) -> pa.Array:
    """Return a headers column over names and values that are in place; ``ends`` has the cumulated number of headers."""
    pairs = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(ends)], 0, children=[pairs])


def _text(names: pa.Array) -> pa.Array:
    """Replace bytes that are not UTF-8 by U+FFFD, as Java's readers do, because header names must be readable."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.view(pa.binary()).to_pylist()
        return binary_array([name.decode("utf-8", "replace").encode() for name in raw], pa.string())
    return names


def _bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


# Users' columns, validated and turned into the arrays that kernels take, without copying if they fit.
_NOTHING: Final = np.empty(0, np.uint8)
_NO_ENDS: Final = np.empty(0, np.int32)
_ZERO_END: Final = np.zeros(1, np.int32)
_UNITS: Final = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""By unit of a timestamp type: how many make a millisecond, and how many milliseconds make one."""


class Binary(Struct, frozen=True):
    """A binary column as kernels take it."""

    data: Bytes
    ends: Int32s
    valid: Bytes

    @property
    def size(self) -> int:
        return int(self.ends[-1]) - int(self.ends[0])


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a column; None if there is none of that name."""
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def timestamps_of(column: pa.Array | None, count: int, default_ms: int) -> Int64s:
    """Return ms since 1970 of a column of timestamps, or of integers of milliseconds. Raises UsageError."""
    if column is None:
        return np.full(count, default_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        per_ms, ms_per = _UNITS[column.type.unit]
        # floor_divide, not a cast, because a time before 1970 must not be rounded up.
        numbers = _plain(column.view(pa.int64()), count)
        milliseconds = numbers * ms_per if per_ms == 1 else np.floor_divide(numbers, per_ms)
    elif pa.types.is_integer(column.type):
        milliseconds = integers_of(column)
    else:
        raise UsageError(f"column 'timestamp' is {column.type}", hint="Give timestamps, or integers of milliseconds")
    if column.null_count:
        milliseconds = np.where(valid_of(column), milliseconds, default_ms)
    return milliseconds


def longest(column: pa.Array) -> int:
    """Return the length of the longest value in a column of bytes or text, large types included."""
    kind = np.int64 if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type) else np.int32
    if not len(column):
        return 0
    ends = np.frombuffer(column.buffers()[1], kind, len(column) + 1, np.dtype(kind).itemsize * column.offset)
    return int((np.diff(ends) * valid_of(column)).max())


def integers_of(column: pa.Array) -> Int64s:
    """Return the numbers of an integer array, including undefined ones under nulls."""
    kind = np.dtype(f"{'i' if pa.types.is_signed_integer(column.type) else 'u'}{column.type.byte_width}")
    numbers = np.frombuffer(column.buffers()[1], kind, len(column), kind.itemsize * column.offset)
    return numbers.astype(np.int64, copy=False)


def _plain(column: pa.Array, count: int) -> Int64s:
    """Return the numbers of an int64 array, including undefined ones under nulls."""
    return np.frombuffer(column.buffers()[1], np.int64, count, 8 * column.offset)


def valid_of(column: pa.Array) -> Bytes:
    """Return one byte per row: 0 where null."""
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    return np.unpackbits(bits, bitorder="little", count=column.offset + len(column))[column.offset :]


def binary_input(column: pa.Array | None, count: int, name: str) -> Binary:
    """Return a column of bytes or text; if it is missing, every row is null. Raises UsageError for other types."""
    if column is None or pa.types.is_null(column.type):
        return Binary(_NOTHING, np.zeros(count + 1, np.int32), np.zeros(count, np.uint8))
    if not pa.types.is_binary(column.type) and not pa.types.is_string(column.type):
        try:
            column = column.cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column {name!r} is {column.type}, not binary or string: {error}") from None
    column.validate()
    _, ends, data = column.buffers()
    return Binary(
        _NOTHING if data is None else np.frombuffer(data, np.uint8),
        _ends(ends, column.offset, count),
        valid_of(column) if column.null_count else _NOTHING,
    )


def _ends(buffer: pa.Buffer, offset: int, count: int) -> Int32s:
    if not count:
        return _ZERO_END
    ends = np.frombuffer(buffer, np.int32, count + 1, 4 * offset)
    return np.require(ends, requirements="A")  # foreign buffers may be unaligned, which compiled code does not accept


def headers_input(column: pa.Array | None) -> tuple[Int32s, Binary, Binary]:
    """Return (ends of each row's headers, their names, their values); without ends if no row has headers.

    Raises UsageError for a column that is not a list of pairs, and for a header without a name.
    """
    nothing = Binary(_NOTHING, _ZERO_END, _NOTHING)
    if column is None or pa.types.is_null(column.type):
        return _NO_ENDS, nothing, nothing
    if column.type != HEADERS_TYPE:
        try:
            column = column.cast(HEADERS_TYPE)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column 'headers' is {column.type}, not a list of key and value: {error}") from None
    pairs = column.flatten()
    if not len(pairs):
        return _NO_ENDS, nothing, nothing
    lengths = np.diff(np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset))
    if column.null_count:  # a null may have a length, but flatten() has left out what it points to
        lengths = np.where(valid_of(column), lengths, 0)
    ends = np.concatenate([_ZERO_END, np.cumsum(lengths, dtype=np.int32)])
    names = pairs.field(0)
    if names.null_count or pairs.null_count:
        raise UsageError("a header has no key", hint="Header keys are text; only their values may be null")
    return (
        ends,
        binary_input(names, len(pairs), "headers.key"),
        binary_input(pairs.field(1), len(pairs), "headers.value"),
    )
