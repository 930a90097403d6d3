"""Walk the records of v2 batches: note where keys, values and headers are, check every length.

Faults are returned as the numbers of `penstock.kernels.interface.Fault`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.jit import BYTES, INT, OUT_INT32S, OUT_INT64S, OUT_TABLE, compiled, inlined
from penstock.kernels._numba.memory import int64
from penstock.kernels._numba.varint import read_varint
from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = ["walk_records"]

_LAST_MS = (2**63 - 1) // 1000


@inlined
def _skip_headers(data: Bytes, count: int, at: int, after: int) -> tuple[int, int]:
    """Return (position after the headers, 0), or (position of the wrong field, fault)."""
    for _ in range(count):
        field = at
        length, at = read_varint(data, field, after)
        if at < 0 or length < 0 or length > after - at:
            return field, 15
        field = at + length
        length, at = read_varint(data, field, after)
        if at < 0 or length < -1 or length > after - at:
            return field, 16
        at += max(length, 0)
    return at, 0


@compiled(
    BYTES, OUT_TABLE, INT, INT, INT, INT, INT, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S,
    OUT_INT64S, OUT_INT64S, OUT_INT32S, OUT_INT32S,
)  # fmt: skip
def walk_records(
    data: Bytes, spans: npt.NDArray[np.int64], row: int, headers: int, start: int, stop: int, want: int,
    key_at: Int32s, key_ends: Int32s, value_at: Int32s, value_ends: Int32s,
    offsets: Int64s, timestamps: Int64s, header_at: Int32s, header_ends: Int32s,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """See `penstock.kernels.interface.Kernel.walk_records`."""
    want_key, want_value = (want & 1) != 0, (want & 2) != 0
    want_offset, want_timestamp, want_headers = (want & 4) != 0, (want & 8) != 0, (want & 16) != 0
    key_total = int64(key_ends[row]) if want_key else 0
    value_total = int64(value_ends[row]) if want_value else 0
    for number in range(len(spans)):
        at, end, count = spans[number, 0], spans[number, 1], spans[number, 2]
        base, last, timestamp, moving = spans[number, 3], spans[number, 4], spans[number, 5], 1 - spans[number, 6]
        for _ in range(count):
            field = at
            length, at = read_varint(data, field, end)
            if at < 0 or length < 6 or length > end - at:
                return row, headers, 7, field, number
            after = at + length
            field = at + 1
            timestamp_delta, at = read_varint(data, field, after)
            if at < 0:
                return row, headers, 11, field, number
            field = at
            offset_delta, at = read_varint(data, field, after)
            if at < 0 or offset_delta < 0 or offset_delta > last:
                return row, headers, 10, field, number
            field = at
            key_length, key_begin = read_varint(data, field, after)
            if key_begin < 0 or key_length < -1 or key_length > after - key_begin:
                return row, headers, 12, field, number
            field = key_begin + max(key_length, 0)
            value_length, value_begin = read_varint(data, field, after)
            if value_begin < 0 or value_length < -1 or value_length > after - value_begin:
                return row, headers, 13, field, number
            field = value_begin + max(value_length, 0)
            header_count, header_begin = read_varint(data, field, after)
            if header_begin < 0 or header_count < 0 or header_count > (after - header_begin) >> 1:
                return row, headers, 14, field, number
            at = header_begin
            if header_count:
                at, fault = _skip_headers(data, header_count, at, after)
                if fault:
                    return row, headers, fault, at, number
            if at != after:
                return row, headers, 8, at, number
            offset = base + offset_delta
            if offset < start or offset >= stop:
                continue
            if want_key:
                key_at[row] = key_begin if key_length >= 0 else -1
                key_total += max(key_length, 0)
                key_ends[row + 1] = key_total
            if want_value:
                value_at[row] = value_begin if value_length >= 0 else -1
                value_total += max(value_length, 0)
                value_ends[row + 1] = value_total
            if want_offset:
                offsets[row] = offset
            if want_timestamp:
                timestamps[row] = max(-_LAST_MS, min(timestamp + timestamp_delta * moving, _LAST_MS)) * 1000
            headers += header_count
            if want_headers:
                header_at[row] = header_begin
                header_ends[row + 1] = headers
            row += 1
        if at != end:
            return row, headers, 9, at, number
        spans[number, 7] = row
    return row, headers, 0, 0, 0
