"""Columns as users give them, checked and brought into the arrays that kernels take; nothing is copied that fits.

What must not live here: encoding.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock._dataclasses import dataclass
from penstock.columnar.buffers import Bytes
from penstock.columnar.schema import HEADERS_TYPE
from penstock.errors import UsageError
from penstock.kernels.interface import Int32s, Int64s

__all__ = ["Binary", "binary_of", "column_of", "headers_of", "integers_of", "longest", "timestamps_of", "valid_of"]

_NOTHING: Final = np.empty(0, np.uint8)
_NO_ENDS: Final = np.empty(0, np.int32)
_ZERO_END: Final = np.zeros(1, np.int32)
_UNITS: Final = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""Of a timestamp type: how many go into a millisecond, and how many milliseconds go into one."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary column as the kernel takes it."""

    data: Bytes
    ends: Int32s
    valid: Bytes

    @property
    def size(self) -> int:
        return int(self.ends[-1]) - int(self.ends[0])


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a column; None where there is none of that name."""
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def timestamps_of(column: pa.Array | None, count: int, default_ms: int) -> Int64s:
    """Return milliseconds since 1970 of a column of timestamps, or of integers of milliseconds. Raises UsageError."""
    if column is None:
        return np.full(count, default_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        per_ms, ms_per = _UNITS[column.type.unit]
        # floor_divide, not a cast: a time before 1970 must not move forwards.
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
    """Return the length of the longest value of a column of bytes or text, large ones included."""
    kind = np.int64 if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type) else np.int32
    if not len(column):
        return 0
    ends = np.frombuffer(column.buffers()[1], kind, len(column) + 1, np.dtype(kind).itemsize * column.offset)
    return int((np.diff(ends) * valid_of(column)).max())


def integers_of(column: pa.Array) -> Int64s:
    """Return the numbers of an array of integers, whatever lies under its nulls included."""
    kind = np.dtype(f"{'i' if pa.types.is_signed_integer(column.type) else 'u'}{column.type.byte_width}")
    numbers = np.frombuffer(column.buffers()[1], kind, len(column), kind.itemsize * column.offset)
    return numbers.astype(np.int64, copy=False)


def _plain(column: pa.Array, count: int) -> Int64s:
    """Return the numbers of an int64 array, whatever lies under its nulls included."""
    return np.frombuffer(column.buffers()[1], np.int64, count, 8 * column.offset)


def valid_of(column: pa.Array) -> Bytes:
    """Return a byte a row: 0 where null."""
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    return np.unpackbits(bits, bitorder="little", count=column.offset + len(column))[column.offset :]


def binary_of(column: pa.Array | None, count: int, name: str) -> Binary:
    """Return a column of bytes or text; where there is none every row is null. Raises UsageError for other types."""
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
    return np.require(ends, requirements="A")  # what came from elsewhere may be unaligned; compiled code insists


def headers_of(column: pa.Array | None) -> tuple[Int32s, Binary, Binary]:
    """Return (ends of each row's headers, their names, their values); no ends where no row has any.

    Raises UsageError for a column that is no list of pairs, and for a header without a name.
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
    if column.null_count:  # a null may have a length, but what it points to was left out above
        lengths = np.where(valid_of(column), lengths, 0)
    ends = np.concatenate([_ZERO_END, np.cumsum(lengths, dtype=np.int32)])
    names = pairs.field(0)
    if names.null_count or pairs.null_count:
        raise UsageError("a header has no key", hint="Header keys are text; only their values may be null")
    return ends, binary_of(names, len(pairs), "headers.key"), binary_of(pairs.field(1), len(pairs), "headers.value")
