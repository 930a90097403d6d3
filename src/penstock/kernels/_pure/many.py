"""Read the fields of many records at once, and judge them.

Which record is wrong is found here; what is wrong with it, and where, is for `record`: it reads that batch once more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.kernels._pure.varints import NOWHERE, read_varints
from penstock.kernels.interface import MIN_RECORD_BYTES, Bytes, Int64s

__all__ = ["Fields", "read_records"]

_MOST_STEPS: Final = 32
_FEW: Final = 20
"""Each header costs a step in the records that have it: where few have more than so many, `record` reads them."""


class Fields(NamedTuple):
    """An array a field, an element a record: as `penstock.kernels._pure.record.Record`."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_at: Int64s
    key_length: Int64s
    value_at: Int64s
    value_length: Int64s
    header_at: Int64s
    headers: Int64s


def read_records(data: Bytes, starts: Int64s, after: Int64s, last: Int64s) -> tuple[Fields, npt.NDArray[np.bool_]]:
    """Return the fields of the records that lie between ``starts`` and ``after``, and which of them are wrong.

    ``last`` is the last offset delta of each one's batch. Positions only grow, so if the last field ends exactly where
    the record does, every byte before was inside it.
    """
    length, body = read_varints(data, starts)
    wrong = (length < MIN_RECORD_BYTES - 1) | (body + length != after)
    timestamp, at = read_varints(data, body + 1)
    offset, at = read_varints(data, at)
    wrong |= (offset < 0) | (offset > last)
    key, key_at = read_varints(data, at)
    wrong |= (key < -1) | (key > after - key_at)
    value, value_at = read_varints(data, key_at + np.maximum(key, 0))
    wrong |= (value < -1) | (value > after - value_at)
    headers, header_at = _read_counts(data, value_at + np.maximum(value, 0))
    ends = header_at
    if headers.any():
        wrong |= (headers < 0) | (headers > (after - header_at) >> 1)
        ends = _after_headers(data, headers, header_at, after, wrong)
    wrong |= ends != after
    return Fields(timestamp, offset, key_at, key, value_at, value, header_at, headers), wrong


def _read_counts(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """Do what `read_varints` does, sooner where all are 0: most records have no headers."""
    if data.take(at, mode="clip").any():
        return read_varints(data, at)
    return np.zeros_like(at), at + 1


def _after_headers(data: Bytes, headers: Int64s, at: Int64s, after: Int64s, wrong: npt.NDArray[np.bool_]) -> Int64s:
    """Where the headers of each record end; nowhere if one of them is wrong."""
    rest = np.flatnonzero((headers > 0) & ~wrong)
    if not len(rest):
        return at
    ends = at.copy()
    at, left, after = at[rest], headers[rest], after[rest]
    steps = 0
    while len(rest) and (steps < _MOST_STEPS or len(rest) >= _FEW):
        name, at = read_varints(data, at)
        good = (name >= 0) & (name <= after - at)
        value, at = read_varints(data, at + name)
        good &= (value >= -1) & (value <= after - at)
        at = np.where(good, at + np.maximum(value, 0), NOWHERE)
        left = np.where(good, left - 1, 0)
        ends[rest] = at
        more = left > 0
        rest, at, left, after = rest[more], at[more], left[more], after[more]
        steps += 1
    ends[rest] = NOWHERE
    return ends
