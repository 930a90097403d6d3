"""JSON lines as columns to send, a block at a time.

As in `pieces`, a block that is in any way unusual has no table, and `sources` alone decides what its lines mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final

import pyarrow as pa

from penstock.cli.blocks import Block, blocks
from penstock.cli.few import is_few
from penstock.cli.pieces import Piece
from penstock.cli.sources import json_records

__all__ = ["json_pieces"]

_FIELDS: Final = pa.schema(
    {
        "value": pa.string(), "key": pa.string(), "partition": pa.int32(), "timestamp": pa.int64(),
        "topic": pa.string(), "node": pa.string(), "offset": pa.int64(),
    }
)  # fmt: skip
_LATEST_MS: Final = 1 << 42


def json_pieces(stream: BinaryIO) -> Iterator[Piece]:
    """Each line an object, as `penstock consume` writes them; empty lines are skipped."""
    for block in blocks(stream):
        yield Piece(
            None if is_few(len(block)) else _parsed(block), partial(json_records, BytesIO(block.data), block.first)
        )


def _parsed(block: Block) -> pa.Table | None:
    """The block's objects, if each line is one, has text for a value, and needs no closer look."""
    from pyarrow import compute, json

    if not _is_an_object_a_line(block.lines()):
        return None
    options = json.ParseOptions(explicit_schema=_FIELDS, unexpected_field_behavior="error")
    try:
        found = json.read_json(pa.BufferReader(block.data), json.ReadOptions(use_threads=False), options)
        found.validate(full=True)
    except pa.ArrowException:
        return None
    value, partition, timestamp = (found[name] for name in ("value", "partition", "timestamp"))
    # A null may also mean that the value is missing, which is not a record.
    if found.num_rows != len(block.lines()) or value.null_count or not (_fits(partition, 1 << 31) and _fits(timestamp)):
        return None
    columns = {"value": value, "key": found["key"], "partition": partition}
    if timestamp.null_count == 0:
        columns["timestamp"] = compute.multiply(timestamp, 1_000).cast(pa.timestamp("us", "UTC"))
    elif timestamp.null_count < len(timestamp):
        return None
    return pa.table(columns)


def _is_an_object_a_line(lines: pa.Array) -> bool:
    """The parser would also accept an object over two lines, and two objects on one line."""
    from pyarrow import compute

    ends = compute.and_(compute.starts_with(lines, b"{"), compute.ends_with(lines, b"}"))
    return bool(compute.all(ends).as_py())


def _fits(column: pa.ChunkedArray, below: int = _LATEST_MS) -> bool:
    from pyarrow import compute

    bounds = compute.min_max(column).as_py()
    return bounds["min"] is None or (bounds["min"] >= 0 and bounds["max"] < below)
