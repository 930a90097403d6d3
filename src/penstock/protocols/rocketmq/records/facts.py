"""What a broker knows of a message and a record has no column for: put among its headers, as text.

Readers who ask for a column of these (`COLUMNS`) get it from there. What must not live here: properties.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow._compute import call_function  # pyarrow.compute is 0.1 s more

from penstock.columnar import arrays
from penstock.protocols.rocketmq.kernels.interface import Stored

__all__ = ["COLUMNS", "FACTS", "with_facts"]

FACTS: Final = {
    "rocketmq.store_time": Stored.STORE_MS,
    "rocketmq.reconsume_times": Stored.RECONSUME_TIMES,
    "rocketmq.queue": Stored.QUEUE_ID,
    "rocketmq.commit_log_offset": Stored.PHYSICAL_OFFSET,
}
"""Headers that hold a number, milliseconds where it is a time."""

NODE: Final = "rocketmq.node"

COLUMNS: Final = {
    "tags": "TAGS",
    "keys": "KEYS",
    "message_id": "UNIQ_KEY",
    **{name.partition(".")[2]: name for name in (*FACTS, NODE)},
}
"""Columns that readers may ask for, and the headers that carry them."""


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
