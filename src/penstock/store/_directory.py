"""Where a log keeps its files: `Directory` and `File`, on disk or in memory.

Failures are OSError here; the layer above knows which log they hit and raises our own errors. What must not live
here: anything about records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Buffer", "Directory", "File", "Reader"]

Buffer = bytes | bytearray | memoryview


class Reader(Protocol):
    """Reads bytes of a file that no longer change."""

    def read(self, position: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, position: int, space: memoryview) -> int:
        """Fill ``space`` and return how many bytes were read: fewer only at the end of the file."""
        ...


class File(Protocol):
    """An open file: bytes at positions, no cursor."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer only at the end of the file."""
        ...

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write all parts, one after the other. After an OSError any prefix of them may be in the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def syncer(self) -> Callable[[], None]:
        """A function that syncs what has been written by now. Call it once, from any thread, even after `close`."""
        ...

    def reader(self) -> Reader:
        """A reader that works as long as it is held, even after `close` and after the file is deleted."""
        ...

    def close(self) -> None: ...


class Directory(Protocol):
    """A directory with files and, in the store's root, directories of partitions."""

    @property
    def path(self) -> str:
        """For messages."""
        ...

    def files(self) -> dict[str, int]:
        """Names and sizes."""
        ...

    def folders(self) -> list[str]: ...

    def folder(self, name: str, *, create: bool = False) -> Directory: ...

    def move_folder(self, old: str, new: str) -> None: ...

    def remove_folder(self, name: str) -> None:
        """With everything in it."""
        ...

    def open(self, name: str, *, create: bool = True) -> File:
        """Open for reading and writing; ``create`` makes a missing file, otherwise it is a FileNotFoundError."""
        ...

    def load(self, name: str) -> bytes | None:
        """A whole small file; None if it does not exist."""
        ...

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        """Write a whole small file atomically: a crash leaves the old one or the new one. ``durable`` syncs it."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None:
        """Does nothing if the file does not exist."""
        ...

    def modified_ms(self, name: str) -> int:
        """When the file was last written, ms since 1970 UTC; 0 if unknown."""
        ...

    def sync(self) -> None:
        """Sync the directory's entries (new, renamed, removed files)."""
        ...

    def lock(self) -> None:
        """Keep other processes out until `unlock`. Raises StoreLocked."""
        ...

    def unlock(self) -> None: ...
