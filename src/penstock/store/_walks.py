"""Walking over the batches of a segment file: by their headers alone, or each whole and with its checksum verified.

`penstock.columnar.batch` reads batches that are in memory as a whole; a lookup in a file of a gigabyte must skip
batches without reading their records. What must not live here: what is done about damage (`_recovery`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from penstock.columnar.batch import HEADER_BYTES, BatchHeader, batches, verify_crc
from penstock.errors import CorruptBatch
from penstock.store._directory import File
from penstock.store.errors import StoreDamaged

__all__ = ["LENGTH_AFTER", "STAMPED", "Step", "VerifiedBatches", "new_step", "walk"]

LENGTH_AFTER: Final = 12
"""A batch's length field counts what follows it: all but these bytes."""

STAMPED: Final = struct.Struct(">qii")
"""What a log overwrites in a batch that it appends: base offset, length, leader epoch."""

_HEAD: Final = struct.Struct(">qi4xb6xi8xq")
"""From a header (Kafka record batch v2): base offset, length, magic, last offset delta, largest timestamp."""

_HEADERS_WINDOW: Final = 4_096 + _HEAD.size
_VERIFIED_WINDOW: Final = 1 << 20


class Step(NamedTuple):
    """One batch's position in its file, its offsets and its largest timestamp (ms)."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp: int


new_step: Final = partial(tuple.__new__, Step)
"""A `Step` of a tuple of all its fields: an append makes one, and a function that takes them one by one costs more."""


def walk(file: File, position: int, size: int, lowest: int, path: str) -> Iterator[Step]:
    """The batches of ``file[position:size]``, whose offsets increase from ``lowest`` on.

    Raises StoreDamaged where no batch begins; ``path`` is for its message.
    """
    window, begin = b"", position
    while position < size:
        at = position - begin
        if at + _HEAD.size > len(window):
            window, begin, at = file.read(position, _HEADERS_WINDOW), position, 0
            if len(window) < _HEAD.size:
                raise StoreDamaged("the file ends inside a batch", file=path, position=position)
        base, length, magic, last_delta, newest = _HEAD.unpack_from(window, at)
        end = position + length + LENGTH_AFTER
        if magic != 2 or end < position + HEADER_BYTES or end > size or last_delta < 0 or base < lowest:
            raise StoreDamaged("no record batch begins here", file=path, position=position)
        lowest = base + last_delta + 1
        yield Step(position, end, base, lowest - 1, newest)
        position = end


class VerifiedBatches:
    """The batches of ``file[:size]``, each whole and with the right checksum, as (position in the file, header).

    After the iteration, ``position`` is the end of the last good batch and ``damage`` says what is wrong with what
    follows, None if nothing follows. If the caller stops early, ``position`` is the batch it stopped at.
    """

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self.position = 0
        self.damage: str | None = None

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        wanted = _VERIFIED_WINDOW
        while self.position < self._size and self.damage is None:
            begin = self.position
            window = self._file.read(begin, min(wanted, self._size - begin))
            try:
                for header in batches(window):
                    verify_crc(window, header)
                    yield begin + header.position, header
                    self.position = begin + header.end
            except CorruptBatch as error:
                self.damage = error.message + (f", counted from byte {begin}" if begin else "")
                return
            if self.position > begin:
                wanted = _VERIFIED_WINDOW
            elif not len(window) < (wanted := _length(window)) <= self._size - begin:
                self.damage = f"the last batch is cut off: only {self._size - begin} of its bytes are there"


def _length(window: bytes) -> int:
    """Bytes of the batch at the start of ``window``, which need not hold all of it, nor all of the length field."""
    return int.from_bytes(window[8:12], "big", signed=True) + LENGTH_AFTER
