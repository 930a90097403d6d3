"""Which batches of a run are decoded, where their plain records lie, and how far the run was looked at.

First stages of decoding: list the headers, pass over what is out of range, control batches and aborted ones, check
the checksums, inflate what is compressed. What must not live here: anything about single records.
"""

from __future__ import annotations

from dataclasses import field

import google_crc32c
import numpy as np
import numpy.typing as npt

from penstock._dataclasses import dataclass
from penstock.columnar._faults import corrupt
from penstock.columnar.arena import Arena
from penstock.columnar.batch import APPEND_TIME, CONTROL, CRC_START, HEADER_BYTES, TRANSACTIONAL
from penstock.columnar.buffers import Bytes, as_array
from penstock.columnar.compression import inflate, inflate_into
from penstock.columnar.transactions import ABORT, AbortedTransactions, control_type
from penstock.errors import CorruptBatch
from penstock.kernels.interface import BATCH_COLUMNS, MIN_RECORD_BYTES, SPAN_COLUMNS, Batch, Fault, Kernel, Span
from penstock.model import Codec

__all__ = ["Chosen", "Limits", "choose"]

_CODECS = tuple(Codec)  # looking a member up by its number costs as much as a header
_CODEC = 7
_CONTROL_BYTES = 1 << 16
_FEW = 8
"""Batches that a loop has looked at before NumPy has started."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller asked for: records in ``[start, stop)``, checksums or not, committed ones only."""

    start: int
    stop: int
    check_crcs: bool
    aborted: AbortedTransactions | None


@dataclass(slots=True)
class Chosen:
    """Batches to walk. ``groups`` cut ``spans`` into runs that lie in the buffer (False) or in the arena (True)."""

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
    """Look at the batches of ``data[position:end]``; raises CorruptBatch if the first one in range is damaged."""
    chosen = Chosen(position, limits.start, arena)
    table = np.empty((max(end - position, 0) // HEADER_BYTES + 1, BATCH_COLUMNS), np.int64)
    count, after, fault = kernel.scan_batches(data, position, end, table)
    chosen.table = table[:count]
    plain = count > _FEW and limits.aborted is None
    plain = plain and not (chosen.table[:, Batch.ATTRIBUTES] & (_CODEC | CONTROL)).any()
    looked, taken = _choose_plain(data, chosen, limits, kernel) if plain else _choose_each(data, chosen, limits)
    if looked == count and fault and not chosen.fault and (fault != Fault.MAGIC or after == position):
        chosen.fault = corrupt(fault, after)
    if chosen.fault and not taken:
        raise chosen.fault
    return chosen


def _choose_each(data: Bytes, chosen: Chosen, limits: Limits) -> tuple[int, int]:
    """Decide batch by batch; returns how many were looked at and how many of them were in range."""
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
    """Do what `_choose_each` does where no batch is compressed or a control batch, and without a loop."""
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
    """Return how many batches there are before a damaged one, and what is wrong with that."""
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
