"""Note where the names and values of record headers are."""

from __future__ import annotations

from penstock.kernels._numba.jit import compiled
from penstock.kernels._numba.varint import read_varint

__all__ = ["walk_headers"]


@compiled
def walk_headers(data, header_at, header_ends, first, last, name_at, name_ends, value_at, value_ends):  # type: ignore[no-untyped-def]
    """See `penstock.kernels.interface.Kernel.walk_headers`."""
    size = len(data)
    for row in range(first, last):
        at = header_at[row] + 0
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
