"""Arrow arrays over buffers that kernels have filled, allocated from Arrow's memory pool.

Made with ``from_buffers`` throughout: ``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas where it is installed,
which costs 0.2 s and 40 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.buffers import Bytes
from penstock.columnar.schema import HEADERS_TYPE
from penstock.kernels.interface import SLACK_BYTES, Int32s, Int64s, Kernel

__all__ = [
    "Pieces",
    "binary",
    "binary_of",
    "binary_over",
    "headers",
    "headers_of",
    "headers_over",
    "numbers",
    "pool_int32s",
    "pool_int64s",
]

_BINARY = pa.binary()

_NO_PAIRS = pa.nulls(0, HEADERS_TYPE.value_type)

Pieces = Sequence[tuple[Bytes, int, int]]
"""Which data array the positions of which rows point into: (data, first row, row after the last)."""


def pool_int32s(size: int) -> Int32s:
    """Return an uninitialised array; its base is an Arrow buffer."""
    return np.frombuffer(pa.allocate_buffer(4 * size), np.int32)


def pool_int64s(size: int) -> Int64s:
    """Return an uninitialised array; its base is an Arrow buffer."""
    return np.frombuffer(pa.allocate_buffer(8 * size), np.int64)


def numbers(
    kind: pa.DataType, rows: int, values: Int32s | Int64s, valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an array of a fixed-width type over the first ``rows`` of ``values``, copying nothing."""
    bitmap = None if valid is None else _bitmap(valid)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(values)])


def binary_of(parts: Sequence[bytes | memoryview | None], kind: pa.DataType = _BINARY) -> pa.Array:
    """Return the ``parts`` as a binary (or string) array; None is null. Raises TypeError for what is not bytes."""
    rows, nulls = len(parts), 0
    try:
        data = b"".join(cast("Sequence[bytes]", parts))
        lengths: Iterable[int] = map(len, cast("Sequence[bytes]", parts))  # no frame of ours a record
    except TypeError:  # there is a null, which most columns have not: nobody looks for it first
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


def headers_of(rows: Sequence[Sequence[tuple[str, bytes | None]]]) -> pa.Array:
    """Return a headers column."""
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, rows), np.int32, len(rows)), out=ends[1:])
    names = binary_of([name.encode() for row in rows for name, _ in row], pa.string())
    values = binary_of([value for row in rows for _, value in row])
    return headers_over(names, values, ends, len(rows))


def binary(kernel: Kernel, kind: pa.DataType, pieces: Pieces, at: Int32s, ends: Int32s) -> pa.Array:
    """Copy the bytes that ``at`` and ``ends`` describe into a new binary or string array; -1 in ``at`` is null."""
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
    """Build the headers column from where each record's headers start and how many there are."""
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
    """Return a headers column of names and values that are in place; ``ends`` counts each row's headers."""
    pairs = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(ends)], 0, children=[pairs])


def _text(names: pa.Array) -> pa.Array:
    """Return ``names``, with U+FFFD for what is not UTF-8: Java's readers do the same, and headers must be readable."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.view(pa.binary()).to_pylist()
        return binary_of([name.decode("utf-8", "replace").encode() for name in raw], pa.string())
    return names


def _bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
