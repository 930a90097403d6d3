"""Record batches v2 to Arrow columns: many batches become one `pyarrow.RecordBatch`, with no Python object a record.

The batches are chosen, checked and inflated first (`_choose`); then one call of the kernel walks the records of all of
them and notes where keys and values are, and one call a column copies the bytes together. What must not live here:
loops over bytes (kernels), formats before v2, fetching.

Damage: batches before a damaged one are returned; the call whose first batch is the damaged one raises. So a reader
that goes on at `Decoded.next_offset` gets every good record, then the error, and can seek past it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from penstock import kernels
from penstock._dataclasses import dataclass
from penstock.columnar import arrays
from penstock.columnar._choose import Chosen, Limits, choose
from penstock.columnar._faults import corrupt
from penstock.columnar.arena import RATIO, Arena
from penstock.columnar.buffers import Bytes, BytesLike, as_array, check_range
from penstock.columnar.compression import MAX_INFLATED_BYTES
from penstock.columnar.schema import TYPES, record_columns, schema
from penstock.columnar.transactions import AbortedTransactions
from penstock.errors import UsageError
from penstock.kernels.interface import (
    WANT_HEADERS,
    WANT_KEY,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_VALUE,
    Batch,
    Int32s,
    Int64s,
    Kernel,
    Span,
)

__all__ = ["Decoded", "decode_v2"]

_NO_STOP: Final = (1 << 63) - 1
_INT32: Final = (1 << 31) - 1
_MOST_INFLATED: Final = 1 << 29

# What a compiled kernel saves (processor time, 0.5 to 2 % of what plain Python takes record by record, in whose bytes
# of some 40 ns kernels count): 0.1 us a record, 0.7 us a batch, 0.3 ns a byte of payload.
_FEW: Final = 150
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


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a run of batches.

    ``batch`` has the record columns that were asked for. ``next_offset`` is where to read on: past control records,
    empty batches and compaction gaps, never below ``start`` or above ``stop`` (``start``, or 0, if no batch was
    complete). ``consumed`` is the position after the last batch that was looked at: short of the buffer's end there
    is an incomplete tail, a batch at or after ``stop``, one of another format, a damaged one, or more than one call
    inflates.
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
    """Decode the complete batches of ``buffer[position:end]``; see `Decoded` for what comes back.

    Records outside ``[start, stop)`` are dropped, control batches skipped. ``columns`` names record columns (topic and
    partition are ignored here); others are not built; None means all. ``aborted`` (producer id, first offset) turns on
    READ_COMMITTED. ``max_inflated_bytes`` bounds one batch (512 MiB at most), and a call stops after the batch that
    reaches it in sum.

    Raises CorruptBatch if the first batch in range is damaged, or inflates to more than allowed. A batch of another
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
    """What a compiled kernel would save, in bytes that plain Python reads one record after the other."""
    if chosen.records <= _FEW:
        return size
    return _OF_A_RECORD * chosen.records + _OF_A_BATCH * len(chosen.rows) + size // _BYTES_OF_ONE


class _Walk:
    """One walk over the chosen batches: the index arrays the kernel fills, and the columns made from them."""

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
        ends = arrays.pool_int32s(rows + 1)
        ends[0] = 0
        return np.empty(rows, np.int32), ends

    def _numbers(self, bit: int, rows: int) -> Int64s:
        return arrays.pool_int64s(rows if self._want & bit else 0)

    def run(self, limits: Limits) -> None:
        """Walk all groups; at a damaged batch end there, or raise if it is the first."""
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
        """End before the batch of ``span``; returns the rows that are left."""
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
            return arrays.binary(self._kernel, pa.binary(), self._pieces, self._key_at, self._key_ends)
        if name == "value":
            return arrays.binary(self._kernel, pa.binary(), self._pieces, self._value_at, self._value_ends)
        if name == "headers":
            return arrays.headers(self._kernel, self._pieces, self._header_at, self._header_ends)
        if name == "timestampType":
            return self._timestamp_types()
        return arrays.numbers(TYPES[name], self.rows, self._offsets if name == "offset" else self._timestamps)

    def _timestamp_types(self) -> pa.Array:
        types = self._spans[:, Span.APPEND_TIME].astype(np.int32)
        if not types.any():
            return arrays.numbers(pa.int32(), self.rows, np.zeros(self.rows, np.int32))
        rows = np.diff(self._spans[:, Span.LAST_ROW], prepend=0)
        return arrays.numbers(pa.int32(), self.rows, np.repeat(types, rows))
