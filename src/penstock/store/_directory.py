"""What a log needs of a place to keep files: `Directory` and `File`, on disk or in memory.

Failures are OSError here; the layer above knows which log they hit and raises our own errors. What must not live
here: anything about records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Buffer", "Directory", "File", "Reader"]

Buffer = bytes | bytearray | memoryview


class Reader(Protocol):
    """A file's bytes as far as they are not written any more."""

    def read(self, position: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, position: int, space: memoryview) -> int:
        """Fill ``space``, and say how much of it: not all only at the end of the file."""
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
        """A call that forces to disk what is written now. It may be made once, from any thread, even after `close`."""
        ...

    def reader(self) -> Reader:
        """To be used as long as somebody holds it, also after `close`, and after the file was deleted."""
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
        """Open for reading and writing; if it is not there it is made, empty, or FileNotFoundError says so."""
        ...

    def load(self, name: str) -> bytes | None:
        """A whole small file, None if it is not there."""
        ...

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        """Write a whole small file: readers and crashes see the old one or the new one. ``durable`` syncs it."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None:
        """Nothing happens if it is not there."""
        ...

    def modified_ms(self, name: str) -> int:
        """When the file was last written, ms since 1970 UTC; 0 where nobody knows."""
        ...

    def sync(self) -> None:
        """Force names (new, renamed, removed files) to disk."""
        ...

    def lock(self) -> None:
        """Keep other processes out until `unlock`. Raises StoreLocked."""
        ...

    def unlock(self) -> None: ...
