"""Write records of v2 batches."""

from __future__ import annotations

import numpy as np

from penstock.kernels._numba.jit import compiled, inlined
from penstock.kernels._numba.memory import copy_bytes, copy_chunk
from penstock.kernels._numba.varint import varint_size, write_varint

__all__ = ["encode_records"]


@inlined
def _length(ends, valid, row):  # type: ignore[no-untyped-def]
    """Return the length of a row, -1 for null."""
    if len(valid) and not valid[row]:
        return np.int64(-1)
    return np.int64(ends[row + 1]) - np.int64(ends[row])


@inlined
def _size(length):  # type: ignore[no-untyped-def]
    return varint_size(length) + max(length, 0)


@inlined
def _put(out, at, data, begin, length):  # type: ignore[no-untyped-def]
    at = write_varint(out, at, length)
    if length <= 0:
        return at
    if length <= 256 and begin + length <= len(data) - 16:
        done = np.int64(0)
        while done < length:
            copy_chunk(out, at + done, data, begin + done)
            done += 16
    else:
        copy_bytes(out, at, data, begin, length)
    return at + length


@inlined
def _headers_size(first, last, name_ends, header_value_ends, header_valid):  # type: ignore[no-untyped-def]
    size = np.int64(0)
    for header in range(first, last):
        size += _size(np.int64(name_ends[header + 1]) - np.int64(name_ends[header]))
        size += _size(_length(header_value_ends, header_valid, header))
    return size


@compiled
def encode_records(  # type: ignore[no-untyped-def]
    keys, key_ends, key_valid, values, value_ends, value_valid, timestamp_deltas,
    header_ends, names, name_ends, header_values, header_value_ends, header_valid, out, at,
):  # fmt: skip
    """See `penstock.kernels.interface.Kernel.encode_records`."""
    first = last = np.int64(0)
    for row in range(len(timestamp_deltas)):
        key_length, value_length = _length(key_ends, key_valid, row), _length(value_ends, value_valid, row)
        if len(header_ends):
            first, last = np.int64(header_ends[row] - header_ends[0]), np.int64(header_ends[row + 1] - header_ends[0])
        delta = timestamp_deltas[row]
        size = 1 + varint_size(delta) + varint_size(row) + _size(key_length) + _size(value_length)
        size += varint_size(last - first) + _headers_size(first, last, name_ends, header_value_ends, header_valid)
        at = write_varint(out, at, size)
        out[at] = 0
        at = write_varint(out, at + 1, delta)
        at = write_varint(out, at, row)
        at = _put(out, at, keys, np.int64(key_ends[row]), key_length)
        at = _put(out, at, values, np.int64(value_ends[row]), value_length)
        at = write_varint(out, at, last - first)
        for header in range(first, last):
            begin = np.int64(name_ends[header])
            at = _put(out, at, names, begin, np.int64(name_ends[header + 1]) - begin)
            length = _length(header_value_ends, header_valid, header)
            at = _put(out, at, header_values, np.int64(header_value_ends[header]), length)
    return at
