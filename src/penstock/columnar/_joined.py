"""Records without headers put together by Arrow, a column of pieces beside the other: nearly as fast as compiled code.

For processes that would else load numba for it, half a second of CPU that pays only after some ten million records.
What must not live here: batch headers, columns of users.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.arrays import binary_of
from penstock.columnar.buffers import Bytes
from penstock.columnar.inputs import Binary
from penstock.kernels.interface import Int64s

__all__ = ["can_join", "join_records"]

_FUNCTIONS: Final = "pyarrow.compute"
_JOIN: Final = "binary_join_element_wise"
_NULL: Final = -1
_SEVEN_BITS: Final = np.uint8(0x7F)
_MORE: Final = np.uint8(0x80)


class _Field(NamedTuple):
    """Numbers to write as varints, and how many bytes each takes; a single one stands for that in every row."""

    numbers: npt.NDArray[np.uint64]
    sizes: Int64s


def can_join() -> bool:
    """Whether Arrow's functions are loaded. They are not for this: whoever encodes may be an event loop."""
    return hasattr(sys.modules.get(_FUNCTIONS), _JOIN)


def join_records(key: Binary, value: Binary, deltas: Int64s, out: Bytes, at: int) -> int | None:
    """Write what `Kernel.encode_records` writes for rows without headers, from ``at`` on; returns where that ends.

    None, and nothing is written, where a null has bytes under it.
    """
    count = len(deltas)
    key_lengths, value_lengths = _lengths(key), _lengths(value)
    if key_lengths is None or value_lengths is None:
        return None
    zero = _field(np.zeros(1, np.int64))  # the attributes, and the count of headers
    body = [zero, *map(_field, (_same(deltas), np.arange(count), key_lengths, value_lengths)), zero]
    size: Int64s = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    for field in body:
        size = size + field.sizes
    # The count of headers ends a record; here it stands before the next one, which saves a column.
    *before_key, before_value, _ = [zero, _field(size), *body]
    pieces: list[pa.Array] = []
    fields: list[_Field] = []
    for before, column, lengths in ((before_key, key, key_lengths), ([before_value], value, value_lengths)):
        fields += before
        if len(lengths) > 1 or lengths[0] > 0:
            pieces += [_varints(fields, count), _column(column)]
            fields = []
    if fields:
        pieces.append(_varints(fields, count))
    joined = _joined(pieces)
    end = at + len(joined)
    out[at : end - 1] = joined[1:]
    out[end - 1] = 0
    return end


def _lengths(column: Binary) -> Int64s | None:
    """The length of each row, -1 for null; a single one if all are the same. None if a null has bytes under it."""
    lengths = np.diff(column.ends).astype(np.int64)
    if len(column.valid):
        null = column.valid == 0
        if lengths[null].any():
            return None
        lengths[null] = _NULL
    return _same(lengths)


def _same(numbers: Int64s) -> Int64s:
    """A single number if all are the same."""
    return numbers[:1] if (numbers == numbers[0]).all() else numbers


def _field(numbers: Int64s) -> _Field:
    zigzag = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    sizes = np.ones(len(zigzag), np.int64)
    largest, bits = int(zigzag.max()), 7
    while largest >> bits:
        sizes += zigzag >= np.uint64(1 << bits)
        bits += 7
    return _Field(zigzag, sizes)


def _varints(fields: Sequence[_Field], count: int) -> pa.Array:
    """The fields' numbers as varints, one after the other in each of ``count`` rows."""
    width = sum(int(field.sizes.max()) for field in fields)
    table = np.empty((count, width), np.uint8)
    there = np.ones((count, width), np.bool_)
    at = 0
    for numbers, sizes in fields:
        fewest = int(sizes.min())
        for step in range(int(sizes.max())):
            byte = (numbers >> np.uint64(7 * step)).astype(np.uint8) & _SEVEN_BITS
            table[:, at] = byte | _MORE if step + 1 < fewest else byte | (sizes > step + 1) * _MORE
            if step >= fewest:
                there[:, at] = sizes > step
            at += 1
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.broadcast_to(sum(each.sizes for each in fields), count), out=ends[1:])
    data = table[there] if int(ends[-1]) < table.size else table
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _column(column: Binary) -> pa.Array:
    """The bytes of each row, none where it is null."""
    buffers = [None, pa.py_buffer(column.ends), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(column.ends) - 1, buffers)


def _joined(pieces: Sequence[pa.Array]) -> Bytes:
    join: Any = getattr(sys.modules[_FUNCTIONS], _JOIN)
    joined = join(*pieces, binary_of([b""])[0])
    _, ends, data = joined.buffers()
    return np.frombuffer(data, np.uint8, int(np.frombuffer(ends, np.int32)[len(joined)]))
