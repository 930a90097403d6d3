"""Decodes record batches v2 to Arrow columns: many batches become one `pyarrow.RecordBatch`, without Python objects.

First the batches are selected, checked and decompressed (`choose`). Then one call of the kernel walks all their records
and notes where keys and values are, and one call per column copies the bytes together.

Damage: the batches before a damaged one are returned, and the call whose first batch is the damaged one raises. So a
reader that continues at `Decoded.next_offset` gets every good record, then the error, and can seek past it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from penstock import kernels
from penstock.errors import CorruptBatch, UsageError
from penstock.kernels.interface import (
    BATCH_COLUMNS,
    MIN_RECORD_BYTES,
    SPAN_COLUMNS,
    WANT_HEADERS,
    WANT_KEY,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_VALUE,
    Batch,
    Fault,
    Int32s,
    Int64s,
    Kernel,
    Span,
)
from penstock.model import Codec
from penstock.records import arrow
from penstock.records.arrow import TYPES, record_columns, schema
from penstock.records.batch import (
    ABORT,
    APPEND_TIME,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL,
    AbortedTransactions,
    Bytes,
    BytesLike,
    as_array,
    check_range,
    control_type,
)
from penstock.records.compression import MAX_INFLATED_BYTES, RATIO, Arena, inflate, inflate_into

__all__ = ["Chosen", "Decoded", "Limits", "choose", "corrupt", "decode_v2"]

# Texts for the faults that kernels report.
_WORDS: Final = {
    Fault.MAGIC: "magic is not that of a record batch v2",
    Fault.BATCH_LENGTH: "batch length is too small for a header",
    Fault.RECORD_COUNT: "record count does not fit the batch",
    Fault.LAST_OFFSET_DELTA: "last offset delta is negative",
    Fault.BASE_OFFSET: "base offset is out of range",
    Fault.CODEC: "codec is unknown",
    Fault.RECORD_LENGTH: "record length does not fit the batch",
    Fault.RECORD_END: "record does not end at its length",
    Fault.LEFTOVER: "bytes are left after the last record",
    Fault.OFFSET_DELTA: "offset delta is not one of the batch",
    Fault.TIMESTAMP_DELTA: "timestamp delta is cut off or too long",
    Fault.KEY_LENGTH: "key length does not fit the record",
    Fault.VALUE_LENGTH: "value length does not fit the record",
    Fault.HEADER_COUNT: "header count does not fit the record",
    Fault.HEADER_KEY_LENGTH: "header key length does not fit the record",
    Fault.HEADER_VALUE_LENGTH: "header value length does not fit the record",
}


def corrupt(fault: int, position: int, offset: int | None = None, *, inflated: bool = False) -> CorruptBatch:
    """Return the error for ``fault`` at byte ``position`` of the buffer, or of the batch's decompressed records."""
    where = "of the inflated records " if inflated else ""
    hint = None
    if offset is not None:
        hint = "The batch that starts at this offset is damaged; seek past it to skip it"
    return CorruptBatch(f"{_WORDS[Fault(fault)]}, at byte {position} {where}".rstrip(), offset=offset, hint=hint)


# The first stages of decoding: list the headers, skip batches that are out of range, aborted or control batches, verify
# the checksums, and decompress.
_CODECS = tuple(Codec)  # looking up a member by number takes as long as parsing a header
_CODEC = 7
_CONTROL_BYTES = 1 << 16
_FEW_BATCHES = 8
"""For so few batches a loop is faster than NumPy."""


class Limits(Struct, frozen=True):
    """The caller's choice: records in ``[start, stop)``, whether to verify checksums, and what was aborted."""

    start: int
    stop: int
    check_crcs: bool
    aborted: AbortedTransactions | None


class Chosen(Struct):
    """Batches to walk. ``groups`` divide ``spans`` into runs that are in the buffer (False) or in the arena (True)."""

    consumed: int
    next_offset: int
    arena: Arena
    rows: list[int] | npt.NDArray[np.intp] = field(default_factory=list)
    groups: list[tuple[bool, int]] = field(default_factory=list)
    inflated: list[tuple[int, int, int]] = field(default_factory=list)  # span, begin, end
    records: int = 0
    fault: CorruptBatch | None = None
    table: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, BATCH_COLUMNS), np.int64))

    def spans(self) -> npt.NDArray[np.int64]:
        """Return the table for `Kernel.walk_records`."""
        table = self.table[self.rows]
        spans = np.empty((len(table), SPAN_COLUMNS), np.int64)
        spans[:, Span.BEGIN] = table[:, Batch.POSITION] + HEADER_BYTES
        spans[:, Span.END] = table[:, Batch.POSITION] + table[:, Batch.LENGTH]
        spans[:, Span.RECORD_COUNT] = table[:, Batch.RECORD_COUNT]
        spans[:, Span.BASE_OFFSET] = table[:, Batch.BASE_OFFSET]
        spans[:, Span.LAST_OFFSET_DELTA] = table[:, Batch.LAST_OFFSET_DELTA]
        spans[:, Span.APPEND_TIME] = (table[:, Batch.ATTRIBUTES] & APPEND_TIME) >> 3
        spans[:, Span.TIMESTAMP] = np.where(
            spans[:, Span.APPEND_TIME], table[:, Batch.MAX_TIMESTAMP], table[:, Batch.BASE_TIMESTAMP]
        )
        spans[:, Span.LAST_ROW] = 0
        for span, begin, end in self.inflated:
            spans[span, Span.BEGIN], spans[span, Span.END] = begin, end
        return spans


def choose(data: Bytes, position: int, end: int, kernel: Kernel, limits: Limits, arena: Arena) -> Chosen:
    """Examine the batches of ``data[position:end]``; raises CorruptBatch if the first one in range is damaged."""
    chosen = Chosen(position, limits.start, arena)
    table = np.empty((max(end - position, 0) // HEADER_BYTES + 1, BATCH_COLUMNS), np.int64)
    count, after, fault = kernel.scan_batches(data, position, end, table)
    chosen.table = table[:count]
    plain = count > _FEW_BATCHES and limits.aborted is None
    plain = plain and not (chosen.table[:, Batch.ATTRIBUTES] & (_CODEC | CONTROL)).any()
    looked, taken = _choose_plain(data, chosen, limits, kernel) if plain else _choose_each(data, chosen, limits)
    if looked == count and fault and not chosen.fault and (fault != Fault.MAGIC or after == position):
        chosen.fault = corrupt(fault, after)
    if chosen.fault and not taken:
        raise chosen.fault
    return chosen


def _choose_each(data: Bytes, chosen: Chosen, limits: Limits) -> tuple[int, int]:
    """Decide batch by batch; return how many were examined, and how many of them were in range."""
    looked = taken = 0
    rows: list[int] = []
    chosen.rows = rows
    for row, batch in enumerate(chosen.table.tolist()):
        begin, length, base, last = batch[:4]
        if base + last >= limits.start:
            if base >= limits.stop or chosen.arena.used >= chosen.arena.limit:
                break
            try:
                _take(data, chosen, rows, row, batch, limits)
            except CorruptBatch as error:
                chosen.fault = _located(error, base)
                break
            taken += 1
            chosen.next_offset = max(chosen.next_offset, base + last + 1)
        chosen.consumed = begin + length
        looked += 1
    return looked, taken


def _choose_plain(data: Bytes, chosen: Chosen, limits: Limits, kernel: Kernel) -> tuple[int, int]:
    """As `_choose_each`, without a loop, for batches of which none is compressed or a control batch."""
    bases, lasts = chosen.table[:, Batch.BASE_OFFSET], chosen.table[:, Batch.LAST_OFFSET_DELTA]
    beyond = np.flatnonzero(bases >= limits.stop)
    looked = int(beyond[0]) if len(beyond) else len(bases)
    rows = np.flatnonzero(bases[:looked] + lasts[:looked] >= limits.start)
    good, error = _good(data, chosen.table[rows], kernel if limits.check_crcs else None)
    if error is not None:
        looked = int(rows[good])
        chosen.fault = _located(error, int(bases[looked]))
        rows = rows[:good]
    if looked:
        chosen.consumed = int(chosen.table[looked - 1, Batch.POSITION] + chosen.table[looked - 1, Batch.LENGTH])
    if good:
        chosen.rows = rows
        chosen.groups = [(False, 0)]
        chosen.records = int(chosen.table[rows, Batch.RECORD_COUNT].sum())
        chosen.next_offset = max(chosen.next_offset, int((bases[rows] + lasts[rows]).max()) + 1)
    return looked, good


def _good(data: Bytes, batches: npt.NDArray[np.int64], checking: Kernel | None) -> tuple[int, CorruptBatch | None]:
    """Return the number of batches before a damaged one, and the error of that one."""
    lengths = batches[:, Batch.LENGTH]
    crowded = np.flatnonzero(batches[:, Batch.RECORD_COUNT] * MIN_RECORD_BYTES > lengths - HEADER_BYTES)
    first_crowded = int(crowded[0]) if len(crowded) else len(batches)
    if checking is not None:
        sums = batches[: first_crowded + 1]
        good = checking.check_crcs(data, sums)
        if good < len(sums):
            return good, _wrong_crc(int(sums[good, Batch.POSITION]))
    if first_crowded < len(batches):
        batch = batches[first_crowded]
        return first_crowded, _crowded(int(batch[Batch.RECORD_COUNT]), int(lengths[first_crowded]) - HEADER_BYTES)
    return len(batches), None


def _wrong_crc(begin: int) -> CorruptBatch:
    return CorruptBatch(f"checksum of the batch at byte {begin} does not fit its bytes")


def _crowded(count: int, size: int) -> CorruptBatch:
    return CorruptBatch(f"{count} records do not fit into {size} bytes")


def _located(error: CorruptBatch, base_offset: int) -> CorruptBatch:
    if error.offset is None:
        error.offset = base_offset
        error.hint = error.hint or "The batch that starts at this offset is damaged; seek past it to skip it"
    return error


def _take(data: Bytes, chosen: Chosen, rows: list[int], row: int, batch: list[int], limits: Limits) -> None:
    begin, length, _, _, attributes, _, _, _, count, crc = batch
    end = begin + length
    if limits.check_crcs and google_crc32c.value(data[begin + CRC_START : end]) != crc:
        raise _wrong_crc(begin)
    if limits.aborted is not None and _aborted(data[begin + HEADER_BYTES : end], batch, limits.aborted):
        return
    if attributes & CONTROL:
        return
    begin += HEADER_BYTES
    inflated = bool(attributes & _CODEC) and begin < end
    if inflated:
        begin, end = inflate_into(chosen.arena, _CODECS[attributes & _CODEC], data[begin:end])
    if count * MIN_RECORD_BYTES > end - begin:
        raise _crowded(count, end - begin)
    if inflated:
        chosen.inflated.append((len(rows), begin, end))
    if not chosen.groups or chosen.groups[-1][0] != inflated:
        chosen.groups.append((inflated, len(rows)))
    rows.append(row)
    chosen.records += count


def _aborted(records: Bytes, batch: list[int], aborted: AbortedTransactions) -> bool:
    attributes, producer = batch[Batch.ATTRIBUTES], batch[Batch.PRODUCER_ID]
    last_offset = batch[Batch.BASE_OFFSET] + batch[Batch.LAST_OFFSET_DELTA]
    control = bool(attributes & CONTROL)
    skip = aborted.skips(producer, last_offset, transactional=bool(attributes & TRANSACTIONAL) and not control)
    if control and batch[Batch.RECORD_COUNT]:
        plain = inflate(_CODECS[attributes & _CODEC], records, _CONTROL_BYTES)
        if control_type(as_array(plain)) == ABORT:
            aborted.end(producer)
    return skip


_NO_STOP: Final = (1 << 63) - 1
_INT32: Final = (1 << 31) - 1
_MOST_INFLATED: Final = 1 << 29

# What a compiled kernel saves, as processor time and in bytes. Plain Python takes some 40 ns per byte when it reads
# record by record, and kernels count in such bytes. A compiled one saves 0.5 to 2 % of that: 0.1 us a record, 0.7 us a
# batch, 0.3 ns a byte of payload.
_FEW_RECORDS: Final = 150
_OF_A_RECORD: Final = 2
_OF_A_BATCH: Final = 14
_BYTES_OF_ONE: Final = 128

_WANT: Final = {
    "key": WANT_KEY,
    "value": WANT_VALUE,
    "offset": WANT_OFFSET,
    "timestamp": WANT_TIMESTAMP,
    "headers": WANT_HEADERS,
}


class Decoded(Struct, frozen=True):
    """The rows of a run of batches.

    ``batch`` has the record columns that were asked for. ``next_offset`` is where to read on: past control records,
    empty batches and compaction gaps, never below ``start`` or above ``stop`` (``start``, or 0, if no batch was
    complete). ``consumed`` is the position after the last batch that was examined. Before the end of the buffer it
    stops at an incomplete batch, one at or after ``stop``, one of another format, a damaged one, or where one call has
    decompressed enough.
    """

    batch: pa.RecordBatch
    next_offset: int
    consumed: int


def decode_v2(
    buffer: BytesLike,
    *,
    position: int = 0,
    end: int | None = None,
    start: int | None = None,
    stop: int | None = None,
    columns: Sequence[str] | None = None,
    check_crcs: bool = True,
    aborted: Sequence[tuple[int, int]] | AbortedTransactions | None = None,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Decoded:
    """Decode the complete batches of ``buffer[position:end]``; see `Decoded` for the result.

    Records outside ``[start, stop)`` are dropped, and control batches are skipped. ``columns`` names the record columns
    to
    build (topic and partition are ignored here); None means all. ``aborted`` (producer id, first offset) turns on
    READ_COMMITTED. ``max_inflated_bytes`` limits one decompressed batch (512 MiB at most), and a call stops after the
    batch with which the sum reaches it.

    Raises CorruptBatch if the first batch in range is damaged, or decompresses to more than allowed. A batch of another
    format ends the run; at ``position`` itself it is an error.
    """
    data = as_array(buffer)
    if len(data) > _INT32:
        raise UsageError(f"a buffer of {len(data)} bytes is too large to decode at once", hint="Split it below 2 GiB")
    names = record_columns(columns)
    if aborted is not None and not isinstance(aborted, AbortedTransactions):
        aborted = AbortedTransactions(aborted)
    first, last = min(max(start or 0, 0), _NO_STOP), _NO_STOP if stop is None else min(stop, _NO_STOP)
    limits = Limits(first, last, check_crcs, aborted)
    end = check_range(len(data), position, end)
    arena = Arena(max(1, min(max_inflated_bytes, _MOST_INFLATED)), RATIO * (end - position))
    chosen = choose(data, position, end, kernels.kernel(0), limits, arena)
    walk = _Walk(kernels.kernel(_worth(chosen, end - position)), data, chosen, names)
    walk.run(limits)
    batch = pa.RecordBatch.from_arrays([walk.column(name) for name in names], schema=schema(names))
    arena.close()
    return Decoded(batch, max(min(chosen.next_offset, limits.stop), limits.start), chosen.consumed)


def _worth(chosen: Chosen, size: int) -> int:
    """What a compiled kernel would save, in bytes that plain Python reads record by record."""
    if chosen.records <= _FEW_RECORDS:
        return size
    return _OF_A_RECORD * chosen.records + _OF_A_BATCH * len(chosen.rows) + size // _BYTES_OF_ONE


class _Walk:
    """One walk over the chosen batches: the index arrays that the kernel fills, and the columns made from them."""

    def __init__(self, kernel: Kernel, data: Bytes, chosen: Chosen, names: Sequence[str]) -> None:
        self._kernel = kernel
        self._data = data
        self._chosen = chosen
        self._want = sum(_WANT.get(name, 0) for name in names)
        self._spans = chosen.spans()
        self._pieces: list[tuple[Bytes, int, int]] = []
        rows = chosen.records
        self._key_at, self._key_ends = self._index(WANT_KEY, rows)
        self._value_at, self._value_ends = self._index(WANT_VALUE, rows)
        self._header_at, self._header_ends = self._index(WANT_HEADERS, rows)
        self._offsets = self._numbers(WANT_OFFSET, rows)
        self._timestamps = self._numbers(WANT_TIMESTAMP, rows)
        self.rows = 0

    def _index(self, bit: int, rows: int) -> tuple[Int32s, Int32s]:
        rows = rows if self._want & bit else 0
        ends = arrow.pool_int32s(rows + 1)
        ends[0] = 0
        return np.empty(rows, np.int32), ends

    def _numbers(self, bit: int, rows: int) -> Int64s:
        return arrow.pool_int64s(rows if self._want & bit else 0)

    def run(self, limits: Limits) -> None:
        """Walk all groups; stop at a damaged batch, or raise if it is the first."""
        headers = 0
        groups = [*self._chosen.groups, (False, len(self._spans))]
        for (inflated, first), (_, last) in pairwise(groups):
            data = self._chosen.arena.array if inflated else self._data
            before = self.rows
            row, headers, fault, position, span = self._kernel.walk_records(
                data, self._spans[first:last], before, headers, limits.start, limits.stop, self._want,
                self._key_at, self._key_ends, self._value_at, self._value_ends, self._offsets, self._timestamps,
                self._header_at, self._header_ends,
            )  # fmt: skip
            if fault:
                row = self._damaged(first + span, inflated, fault, position)
            self._pieces.append((data, before, row))
            self.rows = row
            if fault:
                break

    def _damaged(self, span: int, inflated: bool, fault: int, position: int) -> int:
        """End before the batch of ``span``; return the number of rows that remain."""
        batch = self._chosen.table[self._chosen.rows[span]]
        if inflated:
            position -= int(self._spans[span, Span.BEGIN])
        error = corrupt(fault, position, int(batch[Batch.BASE_OFFSET]), inflated=inflated)
        if span == 0:
            raise error
        self._chosen.consumed = int(batch[Batch.POSITION])
        self._chosen.next_offset = int(batch[Batch.BASE_OFFSET])
        self._spans = self._spans[:span]
        return int(self._spans[span - 1, Span.LAST_ROW])

    def column(self, name: str) -> pa.Array:
        """Build one column."""
        if name == "key":
            return arrow.binary(self._kernel, pa.binary(), self._pieces, self._key_at, self._key_ends)
        if name == "value":
            return arrow.binary(self._kernel, pa.binary(), self._pieces, self._value_at, self._value_ends)
        if name == "headers":
            return arrow.headers(self._kernel, self._pieces, self._header_at, self._header_ends)
        if name == "timestampType":
            return self._timestamp_types()
        return arrow.number_array(TYPES[name], self.rows, self._offsets if name == "offset" else self._timestamps)

    def _timestamp_types(self) -> pa.Array:
        types = self._spans[:, Span.APPEND_TIME].astype(np.int32)
        if not types.any():
            return arrow.number_array(pa.int32(), self.rows, np.zeros(self.rows, np.int32))
        rows = np.diff(self._spans[:, Span.LAST_ROW], prepend=0)
        return arrow.number_array(pa.int32(), self.rows, np.repeat(types, rows))
