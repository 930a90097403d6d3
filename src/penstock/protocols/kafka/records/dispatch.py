"""Decode a run of batches of any format: each batch says in its magic byte which one it has.

Formats change within a run only where a log was written by brokers of different ages. What must not live here: the
formats themselves (`penstock.columnar` for v2, `message_sets` for v0 and v1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.columnar.buffers import BytesLike, as_view, check_range
from penstock.columnar.compression import MAX_INFLATED_BYTES
from penstock.columnar.decode import Decoded, decode_v2
from penstock.columnar.schema import record_columns, schema
from penstock.columnar.transactions import AbortedTransactions
from penstock.errors import CorruptBatch
from penstock.protocols.kafka.records.message_sets import decode_message_sets

__all__ = ["decode"]

_MAGIC_AT: Final = 16
_NEWEST: Final = 2
_NO_STOP: Final = (1 << 63) - 1


def decode(
    buffer: BytesLike,
    *,
    position: int = 0,
    end: int | None = None,
    start: int | None = None,
    stop: int | None = None,
    columns: Sequence[str] | None = None,
    check_crcs: bool = True,
    aborted: Sequence[tuple[int, int]] | None = None,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Decoded:
    """Decode the complete batches of ``buffer[position:end]`` as a Fetch answer or a log segment holds them.

    Arguments and result are those of `penstock.columnar.decode.decode_v2`, for every format; a cut-off batch at the
    end (brokers pad converted answers with one) is left alone. Raises CorruptBatch where the first batch in range is
    damaged or of an unknown format; a later one ends the run, and `Decoded.next_offset` leads to it.
    """
    view = as_view(buffer)
    end = check_range(len(view), position, end)
    names = record_columns(columns)
    transactions = None if aborted is None else AbortedTransactions(aborted)
    parts: list[Decoded] = []
    asked = max(start or 0, 0)
    newest = None
    while end - position > _MAGIC_AT and (view[position + _MAGIC_AT] == _NEWEST) is not newest:
        try:
            newest = _is_newest(view[position + _MAGIC_AT], position)
            if newest:
                part = decode_v2(
                    buffer, position=position, end=end, start=start, stop=stop, columns=names, check_crcs=check_crcs,
                    aborted=transactions, max_inflated_bytes=max_inflated_bytes,
                )  # fmt: skip
            else:
                part = decode_message_sets(
                    view, position, end, start=max(start or 0, 0), stop=_NO_STOP if stop is None else stop,
                    columns=names, check_crcs=check_crcs, max_inflated_bytes=max_inflated_bytes,
                )  # fmt: skip
        except CorruptBatch:
            if not any(part.batch.num_rows or part.next_offset > asked for part in parts):
                raise  # what is before it is not wanted
            break
        parts.append(part)
        position, start = part.consumed, part.next_offset
    if len(parts) == 1:
        return parts[0]
    return Decoded(_concat([part.batch for part in parts], names), start or 0, position)


def _is_newest(magic: int, position: int) -> bool:
    if magic > _NEWEST:
        raise CorruptBatch(f"magic {magic} at byte {position + _MAGIC_AT} is no format of Kafka")
    return magic == _NEWEST


def _concat(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.RecordBatch:
    if batches:
        return pa.concat_batches(batches)
    wanted = schema(names)
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in wanted], schema=wanted)
