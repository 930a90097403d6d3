"""Reads and writes the records of v2 batches in Python and NumPy.

Many records are read at once with NumPy; a few are read in a loop. A batch with anything unusual or wrong is read again
record by record, by a slow reader that knows what is wrong where.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

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

__all__ = [
    "NOWHERE",
    "Fields",
    "PlainFields",
    "Record",
    "Wrong",
    "encode_records",
    "pairs_of",
    "read_plain_records",
    "read_record",
    "read_records",
    "read_varint",
    "read_varints",
    "record_starts",
    "walk_headers",
    "walk_records",
    "write_varint",
]

# Zigzag varints as in Protocol Buffers and Kafka: seven bits per byte, low bits first, at most ten bytes.
_MASK = (1 << 64) - 1


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return (value, position after it); the position is -1 if the varint is cut off or longer than ten bytes."""
    bits = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            bits &= _MASK
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    return 0, -1


def write_varint(out: bytearray, value: int) -> None:
    """Append a 64-bit signed ``value``."""
    bits = (value << 1) ^ (value >> 63)
    while bits > 127:
        out.append(bits & 127 | 128)
        bits >>= 7
    out.append(bits)


# Many zigzag varints at a time: a few NumPy operations instead of a loop.
#
# Those of one or two bytes, which are nearly all, are looked up in a table by their two bytes. Longer ones are read
# byte by byte.
NOWHERE: Final = 1 << 40
"""The position after a varint of more than ten bytes: beyond the end of any record."""

_MOST_BYTES: Final = 10
_LONGER: Final = -1 << 40
_SIZE_BITS: Final = 2
_SIZE: Final = 3


def pairs_of(data: Bytes) -> npt.NDArray[np.uint16]:
    """Return a view of ``data`` (two bytes or more) that pairs the byte at each position with the next one above it."""
    return np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))


def read_varints(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """Return (values, positions after them). Positions may be anywhere; values read outside ``data`` are meaningless.

    A varint that is cut off ends beyond its limit, so a caller that compares the end with the limit notices.
    """
    found = _short_varints().take(_pairs_at(data, at))
    longer = np.flatnonzero(found == _LONGER) if int(found.min(initial=0)) == _LONGER else None
    after = found & _SIZE
    after += at
    found >>= _SIZE_BITS
    if longer is not None:
        found[longer], after[longer] = _read_long(data, at[longer])
    return found, after


def _pairs_at(data: Bytes, at: Int64s) -> npt.NDArray[np.uint16]:
    pairs, last = pairs_of(data), len(data) - 2
    if int(at.view(np.uint64).max(initial=0)) <= last:  # which also means that none is negative
        return pairs[at]
    found = pairs[np.clip(at, 0, last)]
    found[at > last] = data[-1]
    return found


@functools.cache
def _short_varints() -> Int64s:
    """A table from two bytes, low one first, to the value of their varint, with its size in the low bits."""
    low, high = (each.ravel() for each in np.meshgrid(np.arange(256), np.arange(256)))
    bits = np.where(low < 128, low, low & 127 | high << 7)
    found = ((bits >> 1) ^ -(bits & 1)) << _SIZE_BITS | np.where(low < 128, 1, 2)
    found[(low > 127) & (high > 127)] = _LONGER
    return found.astype(np.int64)


def _read_long(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    bits = data.take(at, mode="clip").astype(np.int64)
    after = at + 1
    longer = np.flatnonzero(bits > 127)
    for size in range(1, _MOST_BYTES + 1):
        if not len(longer):
            break
        which: npt.NDArray[np.intp] | slice = slice(None) if len(longer) == len(at) else longer
        if size == _MOST_BYTES:
            after[which] = NOWHERE
            break
        byte = data.take(after[which], mode="clip").astype(np.int64)
        after[which] += 1
        bits[which] += (byte - 1) << (7 * size)  # minus one removes the continuation bit of the byte before
        longer = longer[byte > 127]
    return (bits.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(bits & 1), after


# Where records begin. Each start depends on the previous record, so this is the only step that cannot be done for all
# records at once.
#
# Many batches are walked in parallel, one step in all of them at a time; a few are walked one after the other. Only
# lengths are read, and the only check is whether the last record ends where the batch does.
_STEP: Final = 40
"""A step in many batches at once takes as long as walking this number of records in a loop."""


def record_starts(data: Bytes, begins: Int64s, ends: Int64s, counts: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return (where each record begins, whether the chain of each batch ends where the batch does).

    The positions of a broken chain are meaningless.
    """
    total = int(counts.sum())
    starts = np.empty(total, np.int64)
    firsts = np.cumsum(counts) - counts
    whole = np.zeros(len(counts), np.bool_)
    if int(counts.max(initial=0)) * _STEP < total:
        whole = _side_by_side(data, begins, counts, starts, firsts) == ends
    for row in np.flatnonzero(~whole).tolist():
        found = _starts_one_by_one(data, int(begins[row]), int(ends[row]), int(counts[row]))
        if found is not None:
            first = int(firsts[row])
            starts[first : first + len(found)] = found
            whole[row] = True
    return starts, whole


def _side_by_side(data: Bytes, begins: Int64s, counts: Int64s, starts: Int64s, firsts: Int64s) -> Int64s:
    """Fill ``starts``; return where each chain ends. A chain stops at a length of three bytes."""
    pairs, jumps = pairs_of(data), _jumps()
    last = len(pairs) - 1
    order = np.argsort(-counts, kind="stable")  # so that the chains which continue come first
    at, to = begins[order], firsts[order]
    going = len(order) - np.searchsorted(np.sort(counts), np.arange(int(counts.max())), "right")
    for step, number in enumerate(going.tolist()):
        here = at[:number]
        starts[step:][to[:number]] = here
        here += jumps.take(pairs[np.minimum(here, last)])
    ended = np.empty_like(at)
    ended[order] = at
    return ended


@functools.cache
def _jumps() -> Int64s:
    """A table from two bytes, low one first, to the size of the record that begins with them; 0 for longer lengths."""
    low, high = np.meshgrid(np.arange(256), np.arange(256))
    two = 2 + ((low & 127 | high << 7) >> 1)
    jumps = np.where(low < 128, 1 + (low >> 1), np.where(high < 128, two, 0))
    return jumps.ravel().astype(np.int64)


def _starts_one_by_one(data: Bytes, begin: int, end: int, count: int) -> list[int] | None:
    source = data[begin:end].tobytes()
    at = 0
    starts: list[int] = []
    append = starts.append
    try:
        for _ in range(count):
            append(begin + at)
            length = source[at]
            if length < 128:
                at += 1 + (length >> 1)
                continue
            high = source[at + 1]
            if high < 128:
                at += 2 + ((length & 127 | high << 7) >> 1)
                continue
            length, after = read_varint(source, at, end - begin)
            if length < 0 or after < 0:
                return None
            at = after + length
    except IndexError:
        return None
    return starts if at == end - begin else None


# Reading and checking the fields of many records at once.
#
# This finds the wrong record. `read_record` reads its batch again, and finds what is wrong and where.
_MOST_STEPS: Final = 32
_FEW_LEFT: Final = 20
"""Each header takes a step for the records that have it. When only a few records have more, `read_record` is used."""


class Fields(NamedTuple):
    """One array per field and one element per record, with the fields of `Record`."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_at: Int64s
    key_length: Int64s
    value_at: Int64s
    value_length: Int64s
    header_at: Int64s
    headers: Int64s


def read_records(data: Bytes, starts: Int64s, after: Int64s, last: Int64s) -> tuple[Fields, npt.NDArray[np.bool_]]:
    """Return the fields of the records between ``starts`` and ``after``, and which of them are wrong.

    ``last`` is the last offset delta of each record's batch. Positions only grow, so if the last field ends exactly
    where the record does, every earlier byte was inside the record.
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
    """As `read_varints`, but faster if all are 0, because most records have no headers."""
    if data.take(at, mode="clip").any():
        return read_varints(data, at)
    return np.zeros_like(at), at + 1


def _after_headers(data: Bytes, headers: Int64s, at: Int64s, after: Int64s, wrong: npt.NDArray[np.bool_]) -> Int64s:
    """Where the headers of each record end; `NOWHERE` if one of them is wrong."""
    rest = np.flatnonzero((headers > 0) & ~wrong)
    if not len(rest):
        return at
    ends = at.copy()
    at, left, after = at[rest], headers[rest], after[rest]
    steps = 0
    while len(rest) and (steps < _MOST_STEPS or len(rest) >= _FEW_LEFT):
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


# Reading a few common records at the speed of plain Python: without headers, and with fields of at most two bytes.
#
# Nothing is compared with the record's end until its last field: positions only grow, so if that field ends exactly
# where the record does, every earlier byte was inside it. All other records, and wrong ones, are left to `read_record`.
PlainFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
"""The fields of `Record`."""


def read_plain_records(source: bytes, at: int, end: int, count: int, last: int, found: list[PlainFields]) -> int:
    """Append records to ``found`` until it has ``count``, or one is not plain; return the position after the last."""
    append = found.append
    try:
        for _ in range(count - len(found)):
            length = source[at]
            i = at + 1
            if length > 127:
                length += (source[i] << 7) - 128
                i += 1
            after = i + (length >> 1)
            timestamp = source[i + 1]  # i is at the attributes
            i += 2
            if timestamp > 127:
                timestamp += (source[i] << 7) - 128
                i += 1
            offset = source[i]
            i += 1
            if offset > 127:
                offset += (source[i] << 7) - 128
                i += 1
            key = source[i]
            i += 1
            if key > 127:
                key += (source[i] << 7) - 128
                i += 1
            key_at = i
            if key != 1:
                i += key >> 1
            value = source[i]
            i += 1
            if value > 127:
                value += (source[i] << 7) - 128
                i += 1
            value_at = i
            if value != 1:
                i += value >> 1
            # A second byte above 127 makes a number of 16384 or more: a third byte follows, so this record is not
            # plain. An odd number is negative, which only the null of a key or a value (1) may be.
            if (
                source[i]
                or i + 1 != after
                or after > end
                or (length | timestamp | offset | key | value) > 16383
                or (length | offset) & 1
                or offset >> 1 > last
                or (key & 1 and key != 1)
                or (value & 1 and value != 1)
            ):
                break
            append(
                (
                    (timestamp >> 1) ^ -(timestamp & 1), offset >> 1,
                    key_at, (key >> 1) ^ -(key & 1), value_at, (value >> 1) ^ -(value & 1), after, 0, after,
                )
            )  # fmt: skip
            at = after
    except IndexError:
        pass  # the last record of the data, and it is wrong
    return at


# Reading one record with every check: slow, and exact about what is wrong and where.
#
# Kafka protocol, record (v2): length, attributes, timestampDelta, offsetDelta, key, value, headers; all but the
# attributes are zigzag varints.
class Wrong(Exception):
    """A fault and its position; never leaves the kernel."""

    def __init__(self, fault: Fault, position: int) -> None:
        super().__init__(fault, position)
        self.fault = fault
        self.position = position


class Record(NamedTuple):
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


def read_record(source: bytes, begin: int, end: int, last: int) -> Record:
    """Read the record at ``begin`` of a batch that ends at ``end`` and whose last offset delta is ``last``.

    Raises Wrong.
    """
    length, at = read_varint(source, begin, end)
    if at < 0 or length < MIN_RECORD_BYTES - 1 or length > end - at:
        raise Wrong(Fault.RECORD_LENGTH, begin)
    after = at + length
    field = at + 1
    timestamp_delta, at = read_varint(source, field, after)
    if at < 0:
        raise Wrong(Fault.TIMESTAMP_DELTA, field)
    field = at
    offset_delta, at = read_varint(source, field, after)
    if at < 0 or not 0 <= offset_delta <= last:
        raise Wrong(Fault.OFFSET_DELTA, field)
    key_length, key_at = _length(source, at, after, -1, Fault.KEY_LENGTH)
    value_length, value_at = _length(source, key_at + max(key_length, 0), after, -1, Fault.VALUE_LENGTH)
    field = value_at + max(value_length, 0)
    headers, header_at = read_varint(source, field, after)
    if header_at < 0 or not 0 <= headers <= (after - header_at) // 2:
        raise Wrong(Fault.HEADER_COUNT, field)
    at = header_at
    for _ in range(headers):
        length, at = _length(source, at, after, 0, Fault.HEADER_KEY_LENGTH)
        length, at = _length(source, at + length, after, -1, Fault.HEADER_VALUE_LENGTH)
        at += max(length, 0)
    if at != after:
        raise Wrong(Fault.RECORD_END, at)
    return Record(timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, header_at, headers, after)


def _length(source: bytes, field: int, after: int, least: int, fault: Fault) -> tuple[int, int]:
    length, at = read_varint(source, field, after)
    if at < 0 or not least <= length <= after - at:
        raise Wrong(fault, field)
    return length, at


_LAST_MS: Final = (2**63 - 1) // 1000
_FEW_RECORDS: Final = 150
"""For so few records a loop is faster than NumPy."""
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
    many = len(spans) > 0 and totals[-1] > _FEW_RECORDS and len(data) >= MIN_RECORD_BYTES
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
            fields, wrong = _read_one_by_one(data[begin:end].tobytes(), begin, count, last)
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
        """Note the records of several batches at once; return where they stop: at a wrong or unusual batch, or
        ``last``."""
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


class _Notes(Struct):
    """The arrays to fill, and the position reached in them."""

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
        """Note the records of these batches, ``counts`` of each; return the row after each batch's last."""
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


def _read_one_by_one(source: bytes, begin: int, count: int, last: int) -> tuple[Fields, Wrong | None]:
    """Return the records of one batch up to the first wrong one, whose position counts from the batch's first byte."""
    records, wrong = _records(source, count, last)
    found = np.array(records, np.int64).reshape(-1, len(Record._fields)).T
    timestamp, offset, key_at, key, value_at, value, header_at, headers, _ = found
    return Fields(timestamp, offset, key_at + begin, key, value_at + begin, value, header_at + begin, headers), wrong


def _records(source: bytes, count: int, last: int) -> tuple[list[PlainFields], Wrong | None]:
    """Read plain records fast, and all others with `read_record`."""
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


# Names and values of record headers: the first headers of all records at once, then the second ones, and so on.
#
# The last few records, which have more headers than the others, are read header by header.
_FEW_HEADERS: Final = 20
"""For so few headers a loop is faster than NumPy."""


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
    # Lengths are written to the places of the ends, and summed up at the end.
    names, values = name_ends[begin + 1 : end + 1], value_ends[begin + 1 : end + 1]
    while len(to) > _FEW_HEADERS:
        at = _each_next(data, at, to, to - begin, name_at, names, value_at, values)
        to = to + 1
        more = to < stops
        if not more.all():
            at, to, stops = at[more], to[more], stops[more]
    for row in range(len(to)):
        _headers_one_by_one(
            data.data, int(at[row]), int(to[row]), int(stops[row]), begin, name_at, names, value_at, values
        )
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
    """Note one header of each record; return where they end."""
    length, at = read_varints(data, at)
    name_at[to], names[lengths_to] = at, length
    length, at = read_varints(data, at + length)
    value_at[to] = np.where(length < 0, -1, at)
    length = np.maximum(length, 0)
    values[lengths_to] = length
    return at + length


def _headers_one_by_one(
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


# Writing records.
def encode_records(
    keys: Bytes,
    key_ends: Int32s,
    key_valid: Bytes,
    values: Bytes,
    value_ends: Int32s,
    value_valid: Bytes,
    timestamp_deltas: Int64s,
    header_ends: Int32s,
    names: Bytes,
    name_ends: Int32s,
    header_values: Bytes,
    header_value_ends: Int32s,
    header_valid: Bytes,
    out: Bytes,
    at: int,
) -> int:
    """See `penstock.kernels.interface.Kernel.encode_records`."""
    key_parts = _parts(keys, key_ends, key_valid)
    value_parts = _parts(values, value_ends, value_valid)
    name_parts = _parts(names, name_ends, header_valid[:0])
    header_parts = _parts(header_values, header_value_ends, header_valid)
    bounds = header_ends.tolist() or [0] * (len(timestamp_deltas) + 1)
    shift = bounds[0]
    target = out.data
    for row, delta in enumerate(timestamp_deltas.tolist()):
        body = bytearray(1)
        write_varint(body, delta)
        write_varint(body, row)
        _write(body, key_parts[row])
        _write(body, value_parts[row])
        write_varint(body, bounds[row + 1] - bounds[row])
        for header in range(bounds[row] - shift, bounds[row + 1] - shift):
            _write(body, name_parts[header])
            _write(body, header_parts[header])
        length = bytearray()
        write_varint(length, len(body))
        target[at : at + len(length)] = length
        at += len(length)
        target[at : at + len(body)] = body
        at += len(body)
    return at


def _parts(data: Bytes, ends: Int32s, valid: Bytes) -> list[bytes | None]:
    source, bounds = bytes(data), ends.tolist()
    parts: list[bytes | None] = [source[a:b] for a, b in pairwise(bounds)]
    for row, is_valid in enumerate(valid.tolist()):
        if not is_valid:
            parts[row] = None
    return parts


def _write(body: bytearray, part: bytes | None) -> None:
    if part is None:
        body.append(1)  # zigzag of -1
        return
    write_varint(body, len(part))
    body += part
