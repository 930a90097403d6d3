"""A handful of records that were read in plain Python, as columns: for whoever asks for those after all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.arrays import binary_of, headers_of, numbers
from penstock.columnar.schema import RECORD_COLUMNS, TYPES, schema
from penstock.model import Record

__all__ = ["batch_of"]


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """The records as record columns, all of them."""
    count = len(records)
    arrays = [
        binary_of([record.key for record in records]),
        binary_of([record.value for record in records]),
        numbers(TYPES["offset"], count, np.array([record.offset for record in records], np.int64)),
        numbers(TYPES["timestamp"], count, np.array([record.timestamp_ms * 1000 for record in records], np.int64)),
        numbers(TYPES["timestampType"], count, np.array([int(record.timestamp_type) for record in records], np.int32)),
        headers_of([record.headers for record in records]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(RECORD_COLUMNS))
