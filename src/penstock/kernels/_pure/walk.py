"""Walk the records of v2 batches: note where keys, values and headers are, check every length."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._pure.plain import Fields, read_plain_records
from penstock.kernels._pure.record import Record, Wrong, read_record
from penstock.kernels.interface import (
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
_FIELDS: Final = len(Record._fields)


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
    source = data.tobytes()
    for number, (begin, end, count, base, last, timestamp, append_time, _) in enumerate(spans.tolist()):
        records, wrong = _records(source, begin, end, count, last)
        found = np.array(records, np.int64).reshape(-1, _FIELDS)
        found = found[(found[:, 1] >= start - base) & (found[:, 1] < stop - base)]
        after = row + len(found)
        if want & WANT_KEY:
            _note(key_at[row:after], key_ends[row : after + 1], found[:, 2], found[:, 3])
        if want & WANT_VALUE:
            _note(value_at[row:after], value_ends[row : after + 1], found[:, 4], found[:, 5])
        if want & WANT_OFFSET:
            offsets[row:after] = base + found[:, 1]
        if want & WANT_TIMESTAMP:  # the sum wraps, as in Java
            milliseconds = np.int64(timestamp) + (found[:, 0] if not append_time else np.zeros_like(found[:, 0]))
            timestamps[row:after] = np.clip(milliseconds, -_LAST_MS, _LAST_MS) * 1000
        running = headers + np.cumsum(found[:, 7])
        if want & WANT_HEADERS:
            header_at[row:after], header_ends[row + 1 : after + 1] = found[:, 6], running
        row, headers = after, int(running[-1]) if len(found) else headers
        if wrong is not None:
            return row, headers, wrong.fault, wrong.position, number
        spans[number, Span.LAST_ROW] = row
    return row, headers, Fault.NONE, 0, 0


def _note(positions: Int32s, ends: Int32s, at: Int64s, lengths: Int64s) -> None:
    positions[:] = np.where(lengths >= 0, at, -1)
    ends[1:] = ends[0] + np.cumsum(np.maximum(lengths, 0))


def _records(source: bytes, begin: int, end: int, count: int, last: int) -> tuple[list[Fields], Wrong | None]:
    """Return the records of one batch up to the first wrong one: plain ones at speed, `read_record` judges the rest."""
    found: list[Fields] = []
    at = begin
    try:
        while len(found) < count:
            at = read_plain_records(source, at, end, count, last, found)
            if len(found) < count:
                found.append(read_record(source, at, end, last))
                at = found[-1][-1]
        if at != end:
            raise Wrong(Fault.LEFTOVER, at)
    except Wrong as wrong:
        return found, wrong
    return found, None
