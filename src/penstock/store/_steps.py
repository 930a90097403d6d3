"""Walking over the batches of a segment file by their headers alone, a window at a time.

`penstock.columnar.batch` reads batches that are there as a whole; a lookup in a file of a gigabyte has to step over
batches whose records it never reads. What must not live here: checksums, records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.columnar.batch import HEADER_BYTES
from penstock.store._directory import File
from penstock.store.errors import StoreDamaged

__all__ = ["LENGTH_AFTER", "STAMPED", "Step", "walk"]

LENGTH_AFTER: Final = 12
"""A batch's length field counts what follows it: all but these bytes."""

STAMPED: Final = struct.Struct(">qii")
"""What a log writes anew when a batch is appended: base offset, length, leader epoch."""

_HEAD: Final = struct.Struct(">qi4xb6xi8xq")
"""Of a header (Kafka record batch v2): base offset, length, magic, last offset delta, largest timestamp."""

_WINDOW: Final = 4_096 + _HEAD.size


class Step(NamedTuple):
    """Where one batch lies in its file, which offsets it has, and its largest timestamp (ms)."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def walk(file: File, position: int, size: int, lowest: int, path: str) -> Iterator[Step]:
    """The batches of ``file[position:size]``, whose offsets start at ``lowest`` and grow.

    Raises StoreDamaged where no batch begins; ``path`` is for its message.
    """
    window, begin = b"", position
    while position < size:
        at = position - begin
        if at + _HEAD.size > len(window):
            window, begin, at = file.read(position, _WINDOW), position, 0
            if len(window) < _HEAD.size:
                raise StoreDamaged("the file ends inside a batch", file=path, position=position)
        base, length, magic, last_delta, newest = _HEAD.unpack_from(window, at)
        end = position + length + LENGTH_AFTER
        if magic != 2 or end < position + HEADER_BYTES or end > size or last_delta < 0 or base < lowest:
            raise StoreDamaged("no record batch begins here", file=path, position=position)
        lowest = base + last_delta + 1
        yield Step(position, end, base, lowest - 1, newest)
        position = end
