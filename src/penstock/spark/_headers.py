"""Headers as Spark's own Kafka source gives them: a record without any has null there, not an empty array.

What must not live here: other columns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.spark._columns import HEADERS

__all__ = ["none_as_null"]


def none_as_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with null in the column ``headers`` where a record has none; names and values are not copied."""
    at = batch.schema.get_field_index(HEADERS)
    if at < 0:
        return batch
    column = batch.column(at)
    offsets = np.array(column.offsets, dtype=np.int32)
    none = offsets[1:] == offsets[:-1]
    if not none.any():
        return batch
    # Null already, or nothing in it: a list has either.
    made = pa.ListArray.from_arrays(pa.array(offsets), column.values, type=column.type, mask=pa.array(none))
    return batch.set_column(at, batch.schema.field(at), made)
