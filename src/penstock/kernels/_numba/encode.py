"""Write records of v2 batches."""

from __future__ import annotations

from penstock.kernels._numba.jit import BYTES, INT, INT32S, INT64S, OUT_BYTES, compiled, inlined
from penstock.kernels._numba.memory import CHUNK, copy_bytes, copy_chunk, int64
from penstock.kernels._numba.varint import varint_size, write_varint
from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = ["encode_records"]

_LONG = 512


@inlined
def _length(ends: Int32s, valid: Bytes, row: int) -> int:
    """Return the length of a row, -1 for null."""
    if len(valid) and not valid[row]:
        return int64(-1)
    return int64(ends[row + 1]) - int64(ends[row])


@inlined
def _size(length: int) -> int:
    return varint_size(length) + max(length, 0)


@inlined
def _put(out: Bytes, at: int, data: Bytes, begin: int, length: int) -> int:
    at = write_varint(out, at, length)
    if length <= 0:
        return at
    if length <= _LONG and begin + length <= len(data) - CHUNK:
        done = int64(0)
        while done < length:
            copy_chunk(out, at + done, data, begin + done)
            done += CHUNK
    else:
        copy_bytes(out, at, data, begin, length)
    return at + length


@inlined
def _headers_size(first: int, last: int, name_ends: Int32s, header_value_ends: Int32s, header_valid: Bytes) -> int:
    size = int64(0)
    for header in range(first, last):
        size += _size(int64(name_ends[header + 1]) - int64(name_ends[header]))
        size += _size(_length(header_value_ends, header_valid, header))
    return size


@compiled(
    BYTES, INT32S, BYTES, BYTES, INT32S, BYTES, INT64S, INT32S, BYTES, INT32S, BYTES, INT32S, BYTES, OUT_BYTES, INT,
)  # fmt: skip
def encode_records(
    keys: Bytes, key_ends: Int32s, key_valid: Bytes, values: Bytes, value_ends: Int32s, value_valid: Bytes,
    timestamp_deltas: Int64s, header_ends: Int32s, names: Bytes, name_ends: Int32s,
    header_values: Bytes, header_value_ends: Int32s, header_valid: Bytes, out: Bytes, at: int,
) -> int:  # fmt: skip
    """See `penstock.kernels.interface.Kernel.encode_records`."""
    first = last = int64(0)
    for row in range(len(timestamp_deltas)):
        key_length, value_length = _length(key_ends, key_valid, row), _length(value_ends, value_valid, row)
        if len(header_ends):
            first, last = int64(header_ends[row] - header_ends[0]), int64(header_ends[row + 1] - header_ends[0])
        delta = timestamp_deltas[row]
        size = 1 + varint_size(delta) + varint_size(row) + _size(key_length) + _size(value_length)
        size += varint_size(last - first) + _headers_size(first, last, name_ends, header_value_ends, header_valid)
        at = write_varint(out, at, size)
        out[at] = 0
        at = write_varint(out, at + 1, delta)
        at = write_varint(out, at, row)
        at = _put(out, at, keys, int64(key_ends[row]), key_length)
        at = _put(out, at, values, int64(value_ends[row]), value_length)
        at = write_varint(out, at, last - first)
        for header in range(first, last):
            begin = int64(name_ends[header])
            at = _put(out, at, names, begin, int64(name_ends[header + 1]) - begin)
            length = _length(header_value_ends, header_valid, header)
            at = _put(out, at, header_values, int64(header_value_ends[header]), length)
    return at
