"""Many records at once from the log to messages as they go over the wire: by columns, no Python object a record.

The same as `message_of` for each; for pieces of the log that are worth loading Arrow for. What must not live
here: filters, and where a batch begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from penstock.interfaces.framing import Buffer
from penstock.model import TimestampType
from penstock.protocols.tubemq.wire import record_columns
from penstock.protocols.tubemq.wire.records import as_sent
from penstock.records import decode_v2

__all__ = ["Bulk", "bulk_of", "without_log_times"]


# Times that a log stamped are nothing a producer said: messages go on without any, as they came.
def without_log_times(rows: pa.RecordBatch) -> pa.RecordBatch:
    """``rows`` with null as ``timestamp`` where ``timestampType`` says that it is the log's."""
    by_log = pc.equal(rows.column("timestampType"), int(TimestampType.LOG_APPEND))
    if not pc.any(by_log).as_py():
        return rows
    at = rows.schema.get_field_index("timestamp")
    times = pc.if_else(by_log, pa.scalar(None, rows.schema.field(at).type), rows.column(at))
    return rows.set_column(at, rows.schema.field(at), times)


_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType", "headers")


class Bulk(Struct, frozen=True):
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

    The record that crosses ``most_bytes`` is still in; each counts ``record_bytes`` on top of its value. What belongs
    to transactions of ``aborted`` (producer id, first offset) is left out. Raises CorruptBatch.
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
    payloads = as_sent(record_columns.encode(without_log_times(chosen)), chosen)
    encoded = record_columns.write_messages(payloads, np.ascontiguousarray(offsets[:count], np.int64))
    return Bulk(int(offsets[0]), count, encoded, int(sizes[count - 1]))
