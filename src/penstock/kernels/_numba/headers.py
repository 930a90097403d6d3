"""Note where the names and values of record headers are."""

from __future__ import annotations

from penstock.kernels._numba.jit import BYTES, INT, INT32S, OUT_INT32S, compiled
from penstock.kernels._numba.memory import int64
from penstock.kernels._numba.varint import read_varint
from penstock.kernels.interface import Bytes, Int32s

__all__ = ["walk_headers"]


@compiled(BYTES, INT32S, INT32S, INT, INT, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S)
def walk_headers(
    data: Bytes,
    header_at: Int32s,
    header_ends: Int32s,
    first: int,
    last: int,
    name_at: Int32s,
    name_ends: Int32s,
    value_at: Int32s,
    value_ends: Int32s,
) -> None:
    """See `penstock.kernels.interface.Kernel.walk_headers`."""
    size = len(data)
    for row in range(first, last):
        at = int64(header_at[row])
        for header in range(header_ends[row], header_ends[row + 1]):
            length, at = read_varint(data, at, size)
            name_at[header] = at
            name_ends[header + 1] = name_ends[header] + length
            at += length
            length, at = read_varint(data, at, size)
            value_at[header] = at if length >= 0 else -1
            length = max(length, 0)
            value_ends[header + 1] = value_ends[header] + length
            at += length
