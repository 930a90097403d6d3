"""Note where the names and values of record headers are."""

from __future__ import annotations

from penstock.kernels._pure.varint import read_varint
from penstock.kernels.interface import Bytes, Int32s

__all__ = ["walk_headers"]


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
    source = data.data
    size = len(source)
    for row in range(first, last):
        at = int(header_at[row])
        for header in range(int(header_ends[row]), int(header_ends[row + 1])):
            length, at = read_varint(source, at, size)
            name_at[header], name_ends[header + 1] = at, name_ends[header] + length
            at += length
            length, at = read_varint(source, at, size)
            value_at[header] = at if length >= 0 else -1
            length = max(length, 0)
            value_ends[header + 1] = value_ends[header] + length
            at += length
