"""Which batches of a run are decoded, where their plain records lie, and how far the run was looked at.

First stages of decoding: list the headers, pass over what is out of range, control batches and aborted ones, check
the checksums, inflate what is compressed. What must not live here: anything about single records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import google_crc32c
import numpy as np
import numpy.typing as npt

from penstock.columnar._faults import corrupt
from penstock.columnar.arena import Arena
from penstock.columnar.batch import CRC_START, HEADER_BYTES
from penstock.columnar.buffers import Bytes
from penstock.columnar.compression import inflate, inflate_into
from penstock.columnar.transactions import ABORT, AbortedTransactions, control_type
from penstock.errors import CorruptBatch
from penstock.kernels.interface import BATCH_COLUMNS, MIN_RECORD_BYTES, SPAN_COLUMNS, Batch, Fault, Kernel, Span
from penstock.model import Codec

__all__ = ["Chosen", "Limits", "choose"]

_CODEC = 7
_LOG_APPEND = 8
_TRANSACTIONAL = 16
_CONTROL = 32
_CONTROL_BYTES = 1 << 16


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
    rows: list[int] = field(default_factory=list)
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
        spans[:, Span.APPEND_TIME] = (table[:, Batch.ATTRIBUTES] & _LOG_APPEND) >> 3
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
    taken = 0
    for row, batch in enumerate(chosen.table.tolist()):
        begin, length, base, last = batch[:4]
        if base + last >= limits.start:
            if base >= limits.stop or arena.used >= arena.limit:
                break
            try:
                _take(data, chosen, row, batch, limits)
            except CorruptBatch as error:
                chosen.fault = _located(error, base)
                break
            taken += 1
            chosen.next_offset = base + last + 1
        chosen.consumed = begin + length
    else:
        if fault and (fault != Fault.MAGIC or after == position):
            chosen.fault = corrupt(fault, after)
    if chosen.fault and not taken:
        raise chosen.fault
    return chosen


def _located(error: CorruptBatch, base_offset: int) -> CorruptBatch:
    if error.offset is None:
        error.offset = base_offset
        error.hint = error.hint or "The batch that starts at this offset is damaged; seek past it to skip it"
    return error


def _take(data: Bytes, chosen: Chosen, row: int, batch: list[int], limits: Limits) -> None:
    begin, length, _, _, attributes, _, _, _, count, crc = batch
    end = begin + length
    if limits.check_crcs and google_crc32c.value(data[begin + CRC_START : end]) != crc:
        raise CorruptBatch(f"checksum of the batch at byte {begin} does not fit its bytes")
    if limits.aborted is not None and _aborted(data[begin + HEADER_BYTES : end], batch, limits.aborted):
        return
    if attributes & _CONTROL:
        return
    inflated = bool(attributes & _CODEC) and count > 0
    begin += HEADER_BYTES
    if inflated:
        begin, end = inflate_into(chosen.arena, Codec(attributes & _CODEC), data[begin:end])
    if count * MIN_RECORD_BYTES > end - begin:
        raise CorruptBatch(f"{count} records do not fit into {end - begin} bytes")
    if inflated:
        chosen.inflated.append((len(chosen.rows), begin, end))
    if not chosen.groups or chosen.groups[-1][0] != inflated:
        chosen.groups.append((inflated, len(chosen.rows)))
    chosen.rows.append(row)
    chosen.records += count


def _aborted(records: Bytes, batch: list[int], aborted: AbortedTransactions) -> bool:
    attributes, producer = batch[Batch.ATTRIBUTES], batch[Batch.PRODUCER_ID]
    last_offset = batch[Batch.BASE_OFFSET] + batch[Batch.LAST_OFFSET_DELTA]
    control = bool(attributes & _CONTROL)
    skip = aborted.skips(producer, last_offset, transactional=bool(attributes & _TRANSACTIONAL) and not control)
    if control and batch[Batch.RECORD_COUNT]:
        codec = Codec(attributes & _CODEC)
        if control_type(np.frombuffer(inflate(codec, records, _CONTROL_BYTES), np.uint8)) == ABORT:
            aborted.end(producer)
    return skip
