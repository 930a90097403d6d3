"""Walk the records of v2 batches: note where keys, values and headers are, check every length.

Many records are read at once (`chain`, `many`), batches of some ten thousand records at a time, so that what is noted
of them stays in the processor's cache. A few, and a batch with something wrong or unusual in it, go record by record
(`plain`, `record`), which tells what is wrong and where.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock._dataclasses import dataclass
from penstock.kernels._pure.chain import record_starts
from penstock.kernels._pure.many import Fields, read_records
from penstock.kernels._pure.plain import Fields as PlainFields
from penstock.kernels._pure.plain import read_plain_records
from penstock.kernels._pure.record import Record, Wrong, read_record
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
_FEW: Final = 150
"""Records that a loop has read before NumPy has started."""
_MANY: Final = 1 << 15


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
    notes = _Notes(
        row, headers, start, stop, want,
        key_at, key_ends, value_at, value_ends, offsets, timestamps, header_at, header_ends,
    )  # fmt: skip
    totals = np.cumsum(spans[:, Span.RECORD_COUNT])
    many = len(spans) > 0 and totals[-1] > _FEW and len(data) >= MIN_RECORD_BYTES
    chain = _Chain(data, spans, totals) if many else None
    pieces = -(-int(totals[-1]) // _MANY) if chain is not None else 1
    until = 0
    for piece in range(pieces):
        number, until = until, len(spans)
        if piece < pieces - 1:
            until = int(np.searchsorted(totals, (piece + 1) * int(totals[-1]) // pieces, "right"))
        if chain is not None:
            number = chain.note(number, until, notes)
        for slow in range(number, until):
            begin, end, count, _, last = spans[slow, : Span.LAST_OFFSET_DELTA + 1].tolist()
            fields, wrong = _one_by_one(data[begin:end].tobytes(), begin, count, last)
            notes.add(spans[slow : slow + 1], fields, np.array([len(fields.headers)]))
            if wrong is not None:
                return notes.row, notes.headers, wrong.fault, begin + wrong.position, slow
            spans[slow, Span.LAST_ROW] = notes.row
    return notes.row, notes.headers, Fault.NONE, 0, 0


class _Chain:
    """Where the records of all batches begin."""

    def __init__(self, data: Bytes, spans: npt.NDArray[np.int64], totals: Int64s) -> None:
        self._data, self._spans, self._stops = data, spans, totals
        counts = spans[:, Span.RECORD_COUNT]
        self._starts, self._whole = record_starts(data, spans[:, Span.BEGIN], spans[:, Span.END], counts)
        self._after = np.empty_like(self._starts)
        self._after[:-1] = self._starts[1:]
        filled = counts > 0
        self._after[totals[filled] - 1] = spans[filled, Span.END]

    def note(self, first: int, last: int, notes: _Notes) -> int:
        """Note the records of some batches at once; returns where they end: at a wrong or unusual one, or ``last``."""
        if not self._whole[first:last].all():
            last = first + int(np.argmin(self._whole[first:last]))
        begin, end = (int(self._stops[each - 1]) if each else 0 for each in (first, last))
        spans = self._spans[first:last]
        deltas = np.repeat(spans[:, Span.LAST_OFFSET_DELTA], spans[:, Span.RECORD_COUNT])
        fields, wrong = read_records(self._data, self._starts[begin:end], self._after[begin:end], deltas)
        if wrong.any():
            last = int(np.searchsorted(self._stops, begin + int(np.argmax(wrong)), "right"))
            spans = self._spans[first:last]
            fields = Fields(*(each[: int(spans[:, Span.RECORD_COUNT].sum())] for each in fields))
        spans[:, Span.LAST_ROW] = notes.add(spans, fields, spans[:, Span.RECORD_COUNT])
        return last


@dataclass(slots=True)
class _Notes:
    """The arrays to fill, and how far they are."""

    row: int
    headers: int
    start: int
    stop: int
    want: int
    key_at: Int32s
    key_ends: Int32s
    value_at: Int32s
    value_ends: Int32s
    offsets: Int64s
    timestamps: Int64s
    header_at: Int32s
    header_ends: Int32s

    def add(self, spans: npt.NDArray[np.int64], fields: Fields, counts: Int64s) -> Int64s:
        """Note the records of these batches, ``counts`` of each; returns the row after each batch's last."""
        stops = np.cumsum(counts)
        bases, lasts = spans[:, Span.BASE_OFFSET], spans[:, Span.LAST_OFFSET_DELTA]
        if len(spans) and (bases.min() < self.start or (bases + lasts).max() >= self.stop):
            offset = np.repeat(bases, counts) + fields.offset_delta
            inside = (offset >= self.start) & (offset < self.stop)
            fields = Fields(*(each[inside] for each in fields))
            stops = np.concatenate([[0], np.cumsum(inside)])[stops]
            counts = np.diff(stops, prepend=0)
        row, after = self.row, self.row + len(fields.headers)
        if self.want & WANT_KEY:
            _note(self.key_at[row:after], self.key_ends[row : after + 1], fields.key_at, fields.key_length)
        if self.want & WANT_VALUE:
            _note(self.value_at[row:after], self.value_ends[row : after + 1], fields.value_at, fields.value_length)
        if self.want & WANT_OFFSET:
            np.add(np.repeat(bases, counts), fields.offset_delta, out=self.offsets[row:after])
        if self.want & WANT_TIMESTAMP:
            _stamp(self.timestamps[row:after], spans, fields.timestamp_delta, counts)
        running = self.headers + np.cumsum(fields.headers)
        if self.want & WANT_HEADERS:
            self.header_at[row:after], self.header_ends[row + 1 : after + 1] = fields.header_at, running
        self.row, self.headers = after, int(running[-1]) if len(running) else self.headers
        return stops + row


def _stamp(timestamps: Int64s, spans: npt.NDArray[np.int64], deltas: Int64s, counts: Int64s) -> None:
    milliseconds = np.repeat(spans[:, Span.TIMESTAMP], counts)
    append_time = spans[:, Span.APPEND_TIME]
    if append_time.any():
        deltas = deltas * np.repeat(1 - append_time, counts)
    milliseconds += deltas  # the sum wraps, as in Java
    if len(milliseconds) and not -_LAST_MS <= int(milliseconds.min()) <= int(milliseconds.max()) <= _LAST_MS:
        np.clip(milliseconds, -_LAST_MS, _LAST_MS, out=milliseconds)
    np.multiply(milliseconds, 1000, out=timestamps)


def _note(positions: Int32s, ends: Int32s, at: Int64s, lengths: Int64s) -> None:
    if len(lengths) and int(lengths.min()) < 0:
        at, lengths = np.where(lengths >= 0, at, -1), np.maximum(lengths, 0)
    positions[:] = at
    ends[1:] = ends[0] + np.cumsum(lengths)


def _one_by_one(source: bytes, begin: int, count: int, last: int) -> tuple[Fields, Wrong | None]:
    """Return the records of one batch up to the first wrong one, whose position counts from the batch's first byte."""
    records, wrong = _records(source, count, last)
    found = np.array(records, np.int64).reshape(-1, len(Record._fields)).T
    timestamp, offset, key_at, key, value_at, value, header_at, headers, _ = found
    return Fields(timestamp, offset, key_at + begin, key, value_at + begin, value, header_at + begin, headers), wrong


def _records(source: bytes, count: int, last: int) -> tuple[list[PlainFields], Wrong | None]:
    """Plain records at speed; `read_record` judges the rest."""
    found: list[PlainFields] = []
    at, end = 0, len(source)
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
