"""Lines and JSON lines as columns for a producer, in blocks.

A block has the lines that have arrived so far, so a slow stream is not delayed and a fast one needs few blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from penstock.cli.scalar_text import is_few
from penstock.cli.sources import Outgoing, json_records, line_records
from penstock.errors import UsageError
from penstock.records.arrow import number_array

__all__ = ["Block", "LineBatch", "blocks", "json_batches", "line_batches"]

_BYTES: Final = 1 << 20
_LONGEST: Final = 1 << 28
"""Bytes of a line that is longer than any log accepts; a line without an end would use unlimited memory."""


class Block:
    """Whole lines; ``first`` is the number of the first. Only the last line of a stream may have no line feed."""

    def __init__(self, first: int, data: bytes | bytearray) -> None:
        self.first = first
        self.data = data
        feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self._ends = feeds if data.endswith(b"\n") else np.append(feeds, len(data))

    def __len__(self) -> int:
        return len(self._ends)

    def lines(self) -> pa.Array:
        """Each line as binary, byte for byte, without its line feed."""
        offsets = np.zeros(len(self) + 1, np.int32)
        # Without line feeds, each line ends earlier by the number of line feeds before it.
        offsets[1:] = self._ends - np.arange(len(self))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data.replace(b"\n", b""))]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)


def blocks(stream: BinaryIO) -> Iterator[Block]:
    """A stream's lines, in blocks of about a megabyte if it is fast. Raises UsageError for a line that is too long."""
    number = 1
    begun = bytearray()  # an incomplete line
    while data := stream.read1(_BYTES):  # type: ignore[attr-defined]  # sys.stdin.buffer and open() have it
        end = data.rfind(b"\n") + 1
        if end:
            begun += memoryview(data)[:end]
            block = Block(number, begun)
            begun = bytearray()
            yield block
            number += len(block)
        begun += memoryview(data)[end:]
        if len(begun) > _LONGEST:
            raise UsageError(f"line {number} has more than {_LONGEST} bytes")
    if begun:
        yield Block(number, begun)


# Columns only save time: a block that is in any way unusual has no table, and only `sources` interprets its lines.
class LineBatch(Struct, frozen=True):
    """The records of one block: as a table if none is unusual, and one by one with the numbers of their lines."""

    table: pa.Table | None
    one_by_one: Callable[[], Iterator[Outgoing]]


def line_batches(stream: BinaryIO, separator: str) -> Iterator[LineBatch]:
    """Each line a value; the text before ``separator`` (``\\t``: a tab) is the key."""
    before_value = separator.replace("\\t", "\t").encode()
    for block in blocks(stream):
        if not before_value:
            table = pa.Table.from_arrays([block.lines()], names=["value"])
        else:
            table = None if is_few(len(block)) else _keyed(block.lines(), before_value)
        yield LineBatch(table, partial(line_records, BytesIO(block.data), separator, block.first))


def _keyed(lines: pa.Array, separator: bytes) -> pa.Table | None:
    """Keys and values; None if a line has no separator."""
    from pyarrow import compute

    if separator in (b"\n", b"") or compute.any(compute.less(compute.find_substring(lines, separator), 0)).as_py():
        return None
    halves = compute.split_pattern(lines, pattern=separator, max_splits=1).flatten()
    places = np.arange(0, len(halves), 2)
    columns = [halves.take(number_array(pa.int64(), len(places), each)) for each in (places, places + 1)]
    return pa.Table.from_arrays(columns, names=["key", "value"])


# JSON lines.
_FIELDS: Final = pa.schema(
    {
        "value": pa.string(), "key": pa.string(), "partition": pa.int32(), "timestamp": pa.int64(),
        "topic": pa.string(), "node": pa.string(), "offset": pa.int64(),
    }
)  # fmt: skip
_LATEST_MS: Final = 1 << 42


def json_batches(stream: BinaryIO) -> Iterator[LineBatch]:
    """Each line an object, as `penstock consume` writes them; empty lines are skipped."""
    for block in blocks(stream):
        yield LineBatch(
            None if is_few(len(block)) else _parsed(block), partial(json_records, BytesIO(block.data), block.first)
        )


def _parsed(block: Block) -> pa.Table | None:
    """The block's objects as a table; None unless each line is one object with a text value and nothing unusual."""
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
    # A null may also mean that the value is missing, and then the object is not a record.
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
