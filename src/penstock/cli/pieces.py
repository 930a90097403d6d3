"""Lines as columns to send, a block at a time; and one by one where columns cannot represent them.

Columns only save time: a block that is in any way unusual has no table, and `sources` alone decides what its lines
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from penstock._dataclasses import dataclass
from penstock.cli.blocks import blocks
from penstock.cli.few import is_few
from penstock.cli.sources import Outgoing, line_records
from penstock.columnar.arrays import numbers

__all__ = ["Piece", "line_pieces"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one block: as a table if they are of the usual kind, and one by one with their lines."""

    table: pa.Table | None
    one_by_one: Callable[[], Iterator[Outgoing]]


def line_pieces(stream: BinaryIO, separator: str) -> Iterator[Piece]:
    """Each line a value; the text before ``separator`` (``\\t``: a tab) is the key."""
    before_value = separator.replace("\\t", "\t").encode()
    for block in blocks(stream):
        if not before_value:
            table = pa.Table.from_arrays([block.lines()], names=["value"])
        else:
            table = None if is_few(len(block)) else _keyed(block.lines(), before_value)
        yield Piece(table, partial(line_records, BytesIO(block.data), separator, block.first))


def _keyed(lines: pa.Array, separator: bytes) -> pa.Table | None:
    """Keys and values; None if a line has no separator."""
    from pyarrow import compute

    if separator in (b"\n", b"") or compute.any(compute.less(compute.find_substring(lines, separator), 0)).as_py():
        return None
    halves = compute.split_pattern(lines, pattern=separator, max_splits=1).flatten()
    places = np.arange(0, len(halves), 2)
    columns = [halves.take(numbers(pa.int64(), len(places), each)) for each in (places, places + 1)]
    return pa.Table.from_arrays(columns, names=["key", "value"])
