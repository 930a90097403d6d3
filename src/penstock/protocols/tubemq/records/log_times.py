"""Times that a log stamped are nothing a producer said: messages go on without any, as they came."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model import TimestampType

__all__ = ["without_log_times"]


def without_log_times(rows: pa.RecordBatch) -> pa.RecordBatch:
    """``rows`` with null as ``timestamp`` where ``timestampType`` says that it is the log's."""
    by_log = pc.equal(rows.column("timestampType"), int(TimestampType.LOG_APPEND))
    if not pc.any(by_log).as_py():
        return rows
    at = rows.schema.get_field_index("timestamp")
    times = pc.if_else(by_log, pa.scalar(None, rows.schema.field(at).type), rows.column(at))
    return rows.set_column(at, rows.schema.field(at), times)
