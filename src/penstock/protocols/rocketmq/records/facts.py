"""What a broker knows of a message and a record has no column for: put among its headers, as text.

Readers who ask for a column of these (`columns`) get it from there. What must not live here: properties.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow._compute import call_function  # pyarrow.compute is 0.1 s more

from penstock.columnar import arrays
from penstock.protocols.rocketmq.kernels.interface import Stored
from penstock.protocols.rocketmq.records.columns import COMMIT_LOG_OFFSET, NODE, QUEUE, RECONSUME_TIMES, STORE_TIME

__all__ = ["FACTS", "with_facts"]

FACTS: Final = {
    STORE_TIME: Stored.STORE_MS,
    RECONSUME_TIMES: Stored.RECONSUME_TIMES,
    QUEUE: Stored.QUEUE_ID,
    COMMIT_LOG_OFFSET: Stored.PHYSICAL_OFFSET,
}
"""Headers that hold a number, milliseconds where it is a time."""


def with_facts(headers: pa.Array, table: npt.NDArray[np.int64], node: str) -> pa.Array:
    """Return a headers column with the facts behind each row's own headers."""
    rows, each = len(table), len(FACTS) + 1
    ends = np.frombuffer(headers.buffers()[1], np.int32, rows + 1)
    pairs = headers.values
    total = len(pairs)
    behind = np.insert(
        np.arange(total, dtype=np.int64), np.repeat(ends[1:], each), total + np.arange(rows * each, dtype=np.int64)
    )
    names = pa.concat_arrays(
        [pairs.field(0), arrays.binary_of([*map(str.encode, FACTS), NODE.encode()] * rows, pa.string())]
    )
    values = pa.concat_arrays([pairs.field(1), _values(table, node)])
    places = pa.Array.from_buffers(pa.int64(), len(behind), [None, pa.py_buffer(behind)])
    moved = ends + np.arange(rows + 1, dtype=np.int32) * np.int32(each)
    return arrays.headers_over(
        call_function("take", [names, places]), call_function("take", [values, places]), moved, rows
    )


def _values(table: npt.NDArray[np.int64], node: str) -> pa.Array:
    """Return the values of all rows' facts, row by row."""
    numbers = np.ascontiguousarray(table[:, list(FACTS.values())]).tolist()
    name = node.encode()
    return arrays.binary_of([part for row in numbers for part in (*map(_text, row), name)])


def _text(number: int) -> bytes:
    return b"%d" % number
