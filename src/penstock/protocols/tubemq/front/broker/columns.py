"""Many records at once from the log to messages as they go over the wire: by columns, no Python object a record.

The same as `messages.message_of` for each; for pieces of the log that are worth loading Arrow for. What must not live
here: filters, and where a batch begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow.compute as pc

from penstock._dataclasses import dataclass
from penstock.interfaces.framing import Buffer
from penstock.protocols.tubemq import records
from penstock.protocols.tubemq.records.log_times import without_log_times
from penstock.protocols.tubemq.records.verbatim import as_sent
from penstock.records import decode_v2

__all__ = ["Bulk", "bulk_of"]

_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class Bulk:
    """``count`` messages from record ``first`` on, without holes, encoded as GetMessageResponseB2C's field 4.

    ``size`` in bytes, as the limits count them.
    """

    first: int
    count: int
    encoded: Buffer
    size: int


def bulk_of(
    data: Buffer,
    start: int,
    aborted: Sequence[tuple[int, int]] = (),
    *,
    most_bytes: int,
    most_records: int,
    record_bytes: int,
) -> Bulk | None:
    """The records of whole batches from ``start`` on, up to a hole or a limit; None where there are none.

    The record that crosses ``most_bytes`` is still in; each counts ``record_bytes`` beside its value. What belongs to
    transactions of ``aborted`` (producer id, first offset) is left out. Raises CorruptBatch.
    """
    rows = decode_v2(data, start=start, columns=_COLUMNS, check_crcs=False, aborted=aborted).batch
    if not rows.num_rows:
        return None
    offsets = rows.column("offset").to_numpy()
    holes = np.flatnonzero(np.diff(offsets) != 1)
    count = min(int(holes[0]) + 1 if len(holes) else len(offsets), most_records)
    lengths = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy(zero_copy_only=False)
    sizes = np.cumsum(lengths[:count].astype(np.int64) + record_bytes)
    count = min(count, int(np.searchsorted(sizes, most_bytes)) + 1)
    chosen = rows.slice(0, count)
    payloads = as_sent(records.encode(without_log_times(chosen)), chosen)
    encoded = records.write_messages(payloads, np.ascontiguousarray(offsets[:count], np.int64))
    return Bulk(int(offsets[0]), count, encoded, int(sizes[count - 1]))
