"""Walk the records of v2 batches: note where keys, values and headers are, check every length.

Kafka protocol, record (v2): length, attributes, timestampDelta, offsetDelta, key, value, headers; all but the
attributes are zigzag varints.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.kernels._pure.varint import read_varint, signed64
from penstock.kernels.interface import (
    MIN_RECORD_BYTES,
    WANT_HEADERS,
    WANT_KEY,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_VALUE,
    Bytes,
    Fault,
    Int32s,
    Int64s,
    Span,
)

__all__ = ["walk_records"]

_LAST_MS: Final = (2**63 - 1) // 1000


class _Wrong(Exception):
    """A fault and its position."""

    def __init__(self, fault: Fault, position: int) -> None:
        super().__init__(fault, position)
        self.fault = fault
        self.position = position


class _Record(NamedTuple):
    """Where one record's parts are: positions, and lengths that are -1 for null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_length: int
    value_at: int
    value_length: int
    header_at: int
    headers: int
    after: int


def walk_records(
    data: Bytes,
    spans: npt.NDArray[np.int64],
    row: int,
    headers: int,
    start: int,
    stop: int,
    want: int,
    key_at: Int32s,
    key_ends: Int32s,
    value_at: Int32s,
    value_ends: Int32s,
    offsets: Int64s,
    timestamps: Int64s,
    header_at: Int32s,
    header_ends: Int32s,
) -> tuple[int, int, int, int, int]:
    """See `penstock.kernels.interface.Kernel.walk_records`."""
    source = data.data
    for number, (at, end, count, base, last, timestamp, append_time, _) in enumerate(spans.tolist()):
        try:
            for _ in range(count):
                record = _read(source, at, end, last)
                at = record.after
                offset = base + record.offset_delta
                if not start <= offset < stop:
                    continue
                if want & WANT_KEY:
                    _note(key_at, key_ends, row, record.key_at, record.key_length)
                if want & WANT_VALUE:
                    _note(value_at, value_ends, row, record.value_at, record.value_length)
                if want & WANT_OFFSET:
                    offsets[row] = offset
                if want & WANT_TIMESTAMP:
                    delta = 0 if append_time else record.timestamp_delta
                    timestamps[row] = max(-_LAST_MS, min(signed64(timestamp + delta), _LAST_MS)) * 1000
                headers += record.headers
                if want & WANT_HEADERS:
                    header_at[row], header_ends[row + 1] = record.header_at, headers
                row += 1
            if at != end:
                raise _Wrong(Fault.LEFTOVER, at)
            spans[number, Span.LAST_ROW] = row
        except _Wrong as wrong:
            return row, headers, wrong.fault, wrong.position, number
    return row, headers, Fault.NONE, 0, 0


def _note(positions: Int32s, ends: Int32s, row: int, at: int, length: int) -> None:
    positions[row] = at if length >= 0 else -1
    ends[row + 1] = ends[row] + max(length, 0)


def _read(source: memoryview, begin: int, end: int, last: int) -> _Record:
    length, at = read_varint(source, begin, end)
    if at < 0 or length < MIN_RECORD_BYTES - 1 or length > end - at:
        raise _Wrong(Fault.RECORD_LENGTH, begin)
    after = at + length
    field = at + 1
    timestamp_delta, at = read_varint(source, field, after)
    if at < 0:
        raise _Wrong(Fault.TIMESTAMP_DELTA, field)
    field = at
    offset_delta, at = read_varint(source, field, after)
    if at < 0 or not 0 <= offset_delta <= last:
        raise _Wrong(Fault.OFFSET_DELTA, field)
    key_length, key_at = _length(source, at, after, -1, Fault.KEY_LENGTH)
    value_length, value_at = _length(source, key_at + max(key_length, 0), after, -1, Fault.VALUE_LENGTH)
    field = value_at + max(value_length, 0)
    headers, header_at = read_varint(source, field, after)
    if header_at < 0 or not 0 <= headers <= (after - header_at) // 2:
        raise _Wrong(Fault.HEADER_COUNT, field)
    at = header_at
    for _ in range(headers):
        length, at = _length(source, at, after, 0, Fault.HEADER_KEY_LENGTH)
        length, at = _length(source, at + length, after, -1, Fault.HEADER_VALUE_LENGTH)
        at += max(length, 0)
    if at != after:
        raise _Wrong(Fault.RECORD_END, at)
    return _Record(timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, header_at, headers, after)


def _length(source: memoryview, field: int, after: int, least: int, fault: Fault) -> tuple[int, int]:
    length, at = read_varint(source, field, after)
    if at < 0 or not least <= length <= after - at:
        raise _Wrong(fault, field)
    return length, at
