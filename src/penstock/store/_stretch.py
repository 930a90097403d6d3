"""`Stretch`: bytes of a log that are read when they are wanted. What must not live here: where they begin and end."""

from __future__ import annotations

from typing import Final

from penstock.errors import StoreError
from penstock.store._directory import Reader
from penstock.store._memory import MemoryFile
from penstock.store.errors import StoreDamaged

__all__ = ["NO_BYTES", "Stretch"]


class Stretch:
    """``size`` bytes of a file from ``position`` on; ``path`` is for messages.

    What has been written to a log is never written again, so the bytes are the same whenever they are read: also after
    the log went on, and after its segment was closed, compacted or deleted.
    """

    __slots__ = ("_path", "_position", "_reader", "_size")

    def __init__(self, reader: Reader, position: int, size: int, path: str) -> None:
        self._reader = reader
        self._position = position
        self._size = size
        self._path = path

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        """All of it. Raises StoreDamaged, StoreError."""
        try:
            data = self._reader.read(self._position, self._size)
        except OSError as error:
            raise self._unreadable(error) from error
        self._check(0, len(data), self._size)
        return data

    def read_into(self, start: int, space: memoryview) -> None:
        """Fill ``space`` with what begins at byte ``start`` of it. Raises StoreDamaged, StoreError."""
        try:
            count = self._reader.read_into(self._position + start, space)
        except OSError as error:
            raise self._unreadable(error) from error
        self._check(start, count, len(space))

    def _check(self, start: int, count: int, wanted: int) -> None:
        if count < wanted:
            position = self._position + start + count
            raise StoreDamaged("the file is shorter than it was", file=self._path, position=position)

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot read {self._path}: {error}")


NO_BYTES: Final = Stretch(MemoryFile(), 0, 0, "")
