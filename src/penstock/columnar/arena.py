"""A growing buffer that payloads are inflated into, one behind the other.

What must not live here: pyarrow. Nothing in an arena becomes a column, and a node that only looks into compressed
batches does without.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.columnar.batch import InflatesTooFar
from penstock.errors import CorruptBatch

__all__ = ["RATIO", "Arena", "too_large"]

RATIO: Final = 8
"""Logs are rarely compressed better than this: what to expect of a payload."""

_FIRST_BYTES: Final = 1 << 16
_MOST_EXPECTED: Final = 32 << 20

_spare: list[npt.NDArray[np.uint8]] = []
"""At most one array that a closed arena has left: the next one finds its pages mapped and warm."""


class Arena:
    """Bytes ``[0, used)`` are filled. ``limit`` bounds what one payload may take: beyond it CorruptBatch is raised.

    ``expected`` is a guess of all bytes together. Reserving too much costs nothing, since pages are mapped when they
    are written; reserving too little costs a copy.
    """

    def __init__(self, limit: int, expected: int = _FIRST_BYTES) -> None:
        self._array = np.empty(0, np.uint8)
        self._view = self._array.data
        self._expected = max(_FIRST_BYTES, min(expected, limit, _MOST_EXPECTED))
        self.limit = limit
        self._begin = 0
        self.used = 0

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """All bytes, also those behind ``used``; valid until the next `room`."""
        return self._array

    def begin(self) -> int:
        """Start a payload; returns its position."""
        self._begin = self.used
        return self.used

    def room(self, size: int) -> memoryview:
        """Return the free bytes, at least ``size`` of them unless the limit is nearer, never more than the limit."""
        left = self.limit - (self.used - self._begin)
        size = min(size, left)
        if self.used + size > len(self._array):
            self._grow(self.used + size)
        return self._view[self.used : self.used + left]

    def take(self, size: int) -> None:
        """Say that ``size`` bytes of the room were filled."""
        self.used += size

    def check(self, size: int) -> None:
        """Raise CorruptBatch if a payload that takes ``size`` bytes more is larger than the limit."""
        if self.used - self._begin + size > self.limit:
            raise too_large(self.limit)

    @property
    def left(self) -> int:
        """Return how many bytes the payload may still take."""
        return self.limit - (self.used - self._begin)

    def close(self) -> None:
        """Give the memory back; nobody may look at it any more."""
        if _FIRST_BYTES < len(self._array) <= _MOST_EXPECTED and not _spare:
            _spare.append(self._array)
        self._array = np.empty(0, np.uint8)
        self._view = self._array.data

    def _grow(self, size: int) -> None:
        array = _spared(size) if not self.used else None
        if array is None:
            size = max(size, 2 * len(self._array), self._expected)
            array = np.empty(size, np.uint8)
            array[: self.used] = self._array[: self.used]
        self._array, self._view = array, array.data


def _spared(size: int) -> npt.NDArray[np.uint8] | None:
    try:
        array = _spare.pop()  # another thread may be faster
    except IndexError:
        return None
    return array if len(array) >= size else None


def too_large(limit: int) -> CorruptBatch:
    """Return the error for a payload beyond the limit."""
    return InflatesTooFar(
        f"a batch inflates to more than {limit} bytes",
        hint="Raise the limit if the producers really write batches of that size",
    )
