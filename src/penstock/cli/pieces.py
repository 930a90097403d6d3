"""Lines as columns to send, a block of them at a time; and one by one where columns cannot say what they are.

Columns are an economy, never a second opinion: a block that is in any way unusual has no table, and what its lines mean
is decided by `sources` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute, json

from penstock.cli.blocks import Block, blocks
from penstock.cli.sources import Outgoing, json_records, line_records

__all__ = ["Piece", "json_pieces", "line_pieces"]

_FIELDS: Final = pa.schema(
    {
        "value": pa.string(), "key": pa.string(), "partition": pa.int32(), "timestamp": pa.int64(),
        "topic": pa.string(), "node": pa.string(), "offset": pa.int64(),
    }
)  # fmt: skip
_AS_SCHEMA_SAYS: Final = json.ParseOptions(explicit_schema=_FIELDS, unexpected_field_behavior="error")
_LATEST_MS: Final = 1 << 42


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one block: as a table if they are of the usual kind, and one by one with the lines they stand in."""

    table: pa.Table | None
    one_by_one: Callable[[], Iterator[Outgoing]]


def line_pieces(stream: BinaryIO, separator: str) -> Iterator[Piece]:
    """Each line a value; what stands before ``separator`` (``\\t``: a tab) is the key."""
    before_value = separator.replace("\\t", "\t").encode()
    for block in blocks(stream):
        lines = block.lines()
        table = _keyed(lines, before_value) if before_value else pa.table({"value": lines})
        yield Piece(table, partial(line_records, BytesIO(block.data), separator, block.first))


def _keyed(lines: pa.Array, separator: bytes) -> pa.Table | None:
    """Keys and values; None if a line has no separator."""
    if separator in (b"\n", b"") or compute.any(compute.less(compute.find_substring(lines, separator), 0)).as_py():
        return None
    halves = compute.split_pattern(lines, pattern=separator, max_splits=1).flatten()
    places = np.arange(0, len(halves), 2)
    return pa.table({"key": halves.take(pa.array(places)), "value": halves.take(pa.array(places + 1))})


def json_pieces(stream: BinaryIO) -> Iterator[Piece]:
    """Each line an object, as `penstock consume` writes them; empty lines are passed over."""
    for block in blocks(stream):
        yield Piece(_parsed(block), partial(json_records, BytesIO(block.data), block.first))


def _parsed(block: Block) -> pa.Table | None:
    """The block's objects, if each line is one, with text for a value, and nothing in it has to be looked at."""
    if not _is_an_object_a_line(block.lines()):
        return None
    try:
        found = json.read_json(pa.BufferReader(block.data), json.ReadOptions(use_threads=False), _AS_SCHEMA_SAYS)
        found.validate(full=True)
    except pa.ArrowException:
        return None
    value, partition, timestamp = (found[name] for name in ("value", "partition", "timestamp"))
    # A null may also stand for what is not there, which is no record.
    if found.num_rows != len(block.lines()) or value.null_count or not (_fits(partition, 1 << 31) and _fits(timestamp)):
        return None
    columns = {"value": value, "key": found["key"], "partition": partition}
    if timestamp.null_count == 0:
        columns["timestamp"] = compute.multiply(timestamp, 1_000).cast(pa.timestamp("us", "UTC"))
    elif timestamp.null_count < len(timestamp):
        return None
    return pa.table(columns)


def _is_an_object_a_line(lines: pa.Array) -> bool:
    """The parser would also take an object in two lines, and two in one."""
    ends = compute.and_(compute.starts_with(lines, b"{"), compute.ends_with(lines, b"}"))
    return bool(compute.all(ends).as_py())


def _fits(column: pa.ChunkedArray, below: int = _LATEST_MS) -> bool:
    bounds = compute.min_max(column).as_py()
    return bounds["min"] is None or (bounds["min"] >= 0 and bounds["max"] < below)
