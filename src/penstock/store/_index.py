"""The two sparse indexes of a segment, in Kafka's file formats, so that Kafka's own tools read them.

- ``.index``: i32 last offset of a batch less the segment's base, i32 position of that batch in the ``.log`` file.
- ``.timeindex``: i64 largest timestamp so far, i32 last offset (less the base) of the batch that has it.

Both big-endian, strictly increasing. They are kept in memory while their segment is open (8 and 12 bytes per 4 KiB of
log) and written in blocks: an index is only a shortcut, which recovery rebuilds from the log.
"""

from __future__ import annotations

import operator
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

from penstock.store._directory import File

__all__ = ["OffsetIndex", "TimeIndex"]

_TIME: Final = struct.Struct(">qi")


class OffsetIndex:
    """Entries as one growing array of ``relative offset << 32 | position``, which is also their order on disk."""

    __slots__ = ("_entries", "_written")

    ENTRY_BYTES: Final = 8

    def __init__(self) -> None:
        self._entries = array("Q")
        self._written = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, relative_offset: int, position: int) -> None:
        """A batch at ``position`` ends with ``relative_offset``."""
        self._entries.append(relative_offset << 32 | position)

    def floor(self, relative_offset: int) -> tuple[int, int]:
        """(relative last offset, position) of the last entry not above the offset; (-1, 0) before the first."""
        row = bisect_right(self._entries, relative_offset << 32 | 0xFFFFFFFF) - 1
        return self._entry(row) if row >= 0 else (-1, 0)

    def before(self, position: int) -> tuple[int, int]:
        """(relative last offset, position) of the last entry not above the position; (-1, 0) before the first."""
        row = bisect_right(self._entries, position, key=_position_of) - 1
        return self._entry(row) if row >= 0 else (-1, 0)

    def last(self) -> tuple[int, int]:
        """The last entry, (-1, 0) if there is none."""
        return self._entry(-1) if self._entries else (-1, 0)

    def _entry(self, row: int) -> tuple[int, int]:
        entry = self._entries[row]
        return entry >> 32, entry & 0xFFFFFFFF

    def load(self, file: File) -> None:
        """Read a file, without a torn last entry. Raises ValueError if entries do not increase."""
        data = file.read(0, file.size // self.ENTRY_BYTES * self.ENTRY_BYTES)
        words = array("i", data)
        _swap(words)
        if not (_in_order(words[0::2], operator.lt) and _in_order(words[1::2], operator.lt)):
            raise ValueError("the entries of an offset index do not increase")
        entries = array("Q", data)
        _swap(entries)
        self._entries, self._written = entries, len(entries)

    @property
    def pending_bytes(self) -> int:
        return (len(self._entries) - self._written) * self.ENTRY_BYTES

    def write(self, file: File) -> None:
        """Append what is not in the file yet."""
        pending = self._entries[self._written :]
        _swap(pending)
        file.write(self._written * self.ENTRY_BYTES, [pending.tobytes()])
        self._written = len(self._entries)


class TimeIndex:
    """Largest timestamps so far, and the relative last offsets of the batches that set them."""

    __slots__ = ("_offsets", "_timestamps", "_written")

    ENTRY_BYTES: Final = _TIME.size

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self._written = 0

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def pending_bytes(self) -> int:
        return (len(self._timestamps) - self._written) * self.ENTRY_BYTES

    def add(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add a new largest timestamp; ignored unless it is larger than the last entry's."""
        if timestamp_ms >= 0 and (not self._timestamps or timestamp_ms > self._timestamps[-1]):
            self._timestamps.append(timestamp_ms)
            self._offsets.append(relative_offset)

    def below(self, timestamp_ms: int) -> int:
        """Relative offset up to which every record is older than ``timestamp_ms``; -1 if the first may not be."""
        row = bisect_left(self._timestamps, timestamp_ms) - 1
        return self._offsets[row] if row >= 0 else -1

    def last(self) -> tuple[int, int]:
        """(timestamp, relative offset) of the last entry, (-1, -1) if there is none."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else (-1, -1)

    def load(self, file: File) -> None:
        """Read a file, without a torn last entry. Raises ValueError if timestamps do not increase."""
        rows = _TIME.iter_unpack(file.read(0, file.size // self.ENTRY_BYTES * self.ENTRY_BYTES))
        timestamps, offsets = array("q"), array("i")
        for timestamp, offset in rows:
            timestamps.append(timestamp)
            offsets.append(offset)
        if not (_in_order(timestamps, operator.lt) and _in_order(offsets, operator.le)):
            raise ValueError("the entries of a time index do not increase")
        self._timestamps, self._offsets, self._written = timestamps, offsets, len(timestamps)

    def write(self, file: File) -> None:
        """Append what is not in the file yet."""
        rows = map(_TIME.pack, self._timestamps[self._written :], self._offsets[self._written :])
        file.write(self._written * self.ENTRY_BYTES, [b"".join(rows)])
        self._written = len(self._timestamps)


def _position_of(entry: int) -> int:
    return entry & 0xFFFFFFFF


def _in_order(column: array[int], order: Callable[[int, int], bool]) -> bool:
    """Whether each pair of neighbours is in ``order``, and no entry is negative."""
    return not column or (column[0] >= 0 and all(map(order, column, column[1:])))


def _swap(entries: array[int]) -> None:
    if sys.byteorder == "little":
        entries.byteswap()
