"""Note where the names and values of record headers are: of all records the first ones at once, then the second ones.

The last few records that have more headers than the others are read header by header.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._pure.varint import read_varint
from penstock.kernels._pure.varints import read_varints
from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = ["walk_headers"]

_FEW: Final = 20
"""Headers that a loop has read before NumPy has started."""


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
    bounds = header_ends[first : last + 1].astype(np.int64)
    some = np.flatnonzero(np.diff(bounds))
    begin, end = int(bounds[0]), int(bounds[-1])
    at, to, stops = header_at[first:last][some].astype(np.int64), bounds[some], bounds[some + 1]
    # Lengths are noted where each one's end belongs, and summed up in the end.
    names, values = name_ends[begin + 1 : end + 1], value_ends[begin + 1 : end + 1]
    while len(to) > _FEW:
        at = _each_next(data, at, to, to - begin, name_at, names, value_at, values)
        to = to + 1
        more = to < stops
        if not more.all():
            at, to, stops = at[more], to[more], stops[more]
    for row in range(len(to)):
        _one_by_one(data.data, int(at[row]), int(to[row]), int(stops[row]), begin, name_at, names, value_at, values)
    for lengths, before in ((names, name_ends[begin]), (values, value_ends[begin])):
        np.cumsum(lengths, dtype=np.int32, out=lengths)
        lengths += before


def _each_next(
    data: Bytes,
    at: Int64s,
    to: Int64s,
    lengths_to: Int64s,
    name_at: Int32s,
    names: Int32s,
    value_at: Int32s,
    values: Int32s,
) -> Int64s:
    """Note one header of each record; returns where they end."""
    length, at = read_varints(data, at)
    name_at[to], names[lengths_to] = at, length
    length, at = read_varints(data, at + length)
    value_at[to] = np.where(length < 0, -1, at)
    length = np.maximum(length, 0)
    values[lengths_to] = length
    return at + length


def _one_by_one(
    source: memoryview,
    at: int,
    first: int,
    stop: int,
    begin: int,
    name_at: Int32s,
    names: Int32s,
    value_at: Int32s,
    values: Int32s,
) -> None:
    size = len(source)
    for header in range(first, stop):
        length, at = read_varint(source, at, size)
        name_at[header], names[header - begin] = at, length
        at += length
        length, at = read_varint(source, at, size)
        value_at[header] = at if length >= 0 else -1
        values[header - begin] = length = max(length, 0)
        at += length
