"""Reading a segment file from its start to the first byte that cannot have been written by an append.

What must not live here: what is done about damage (`_recovery`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.columnar.batch import BatchHeader, batches, verify_crc
from penstock.errors import CorruptBatch
from penstock.store._directory import File
from penstock.store._steps import LENGTH_AFTER

__all__ = ["VerifiedBatches"]

_WINDOW: Final = 1 << 20


class VerifiedBatches:
    """The batches of ``file[:size]``, each whole and with the right checksum, as (position in the file, header).

    When the iteration has ended, ``position`` is the end of the last good batch and ``damage`` says what is wrong
    with what follows, None if nothing follows. A caller that stops early finds there the batch it stopped at.
    """

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self.position = 0
        self.damage: str | None = None

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        wanted = _WINDOW
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
                wanted = _WINDOW
            elif not len(window) < (wanted := _length(window)) <= self._size - begin:
                self.damage = f"the last batch is cut off: {self._size - begin} bytes are there"


def _length(window: bytes) -> int:
    """Of the batch that begins the window and is longer; a window without a length field is shorter than a batch."""
    return int.from_bytes(window[8:12], "big", signed=True) + LENGTH_AFTER
