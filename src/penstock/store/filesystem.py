"""`Directory` and `File`, the two interfaces through which a log uses files, for disk and for memory.

Failures are OSError here; the layer above knows which log they concern and raises penstock's own errors.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, Self

from penstock.store.errors import StoreLocked

__all__ = ["Buffer", "Directory", "DiskDirectory", "DiskFile", "File", "MemoryDirectory", "MemoryFile", "Reader"]

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
        """A function that syncs all bytes written so far. Call it once, from any thread, even after `close`."""
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


# `Directory` and `File` on a local file system, by file descriptor.
LOCK: Final = ".lock"

_temporary = itertools.count()


_CLOSED: Final = -1


class _Descriptor:
    """A file descriptor that is closed with the last reference to this object."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)

    def read(self, position: int, count: int) -> bytes:
        data = os.pread(self.number, count, position)
        if len(data) == count or not data:
            return data
        # Linux reads at most 2 GiB less a page at once, and a signal may cut a read short.
        pieces = [data]
        while data and (count := count - len(data)):
            position += len(data)
            data = os.pread(self.number, count, position)
            pieces.append(data)
        return b"".join(pieces)

    def read_into(self, position: int, space: memoryview) -> int:
        done = 0
        while done < len(space) and (count := os.preadv(self.number, [space[done:]], position + done)):
            done += count
        return done


class DiskFile:
    """A file descriptor, closed with the object's `close` unless a `reader` still needs it."""

    __slots__ = ("_descriptor", "_held")

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
        self._held: _Descriptor | None = _Descriptor(self._descriptor)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, count: int) -> bytes:
        return self._open().read(position, count)

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        wanted = sum(map(len, parts))
        written = os.pwritev(self._descriptor, parts, position)
        if written < wanted:
            # On a full disk, a write stores only a part; the next write reports the error.
            rest = memoryview(b"".join(parts))[written:]
            while rest:
                position += written
                written = os.pwrite(self._descriptor, rest, position)
                rest = rest[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def syncer(self) -> Callable[[], None]:
        duplicate = os.dup(self._descriptor)

        def sync() -> None:
            try:
                os.fdatasync(duplicate)
            finally:
                os.close(duplicate)

        return sync

    def reader(self) -> _Descriptor:
        return self._open()

    def close(self) -> None:
        self._open()
        self._held, self._descriptor = None, _CLOSED

    def _open(self) -> _Descriptor:
        if self._held is None:
            raise OSError(errno.EBADF, "the file is closed")
        return self._held


class DiskDirectory:
    """A directory by its path."""

    __slots__ = ("_lock", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    @property
    def path(self) -> str:
        return str(self._path)

    def files(self) -> dict[str, int]:
        with os.scandir(self._path) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def folders(self) -> list[str]:
        with os.scandir(self._path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]

    def folder(self, name: str, *, create: bool = False) -> Self:
        inner = self._path / name
        if create:
            inner.mkdir(exist_ok=True)
        return type(self)(inner)

    def move_folder(self, old: str, new: str) -> None:
        self.rename(old, new)

    def remove_folder(self, name: str) -> None:
        shutil.rmtree(self._path / name)

    def open(self, name: str, *, create: bool = True) -> DiskFile:
        return DiskFile(self._path / name, create=create)

    def load(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        # Two threads may replace one file (a flush and the owner), so each first writes its own temporary file.
        temporary = self._path / f"{name}.{next(_temporary)}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(self._path / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            self.sync()

    def rename(self, old: str, new: str) -> None:
        (self._path / old).rename(self._path / new)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def modified_ms(self, name: str) -> int:
        return (self._path / name).stat().st_mtime_ns // 1_000_000

    def sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self) -> None:
        descriptor = os.open(self._path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).strip()
            os.close(descriptor)
            pid = int(holder) if holder.isdigit() else None
            raise StoreLocked(
                f"{self._path} is in use by process {pid if pid is not None else '(unknown)'}",
                pid=pid,
                hint="One process at a time may open a store; stop that one or choose another directory",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # this also releases the lock
            self._lock = None


# `Directory` and `File` in memory, for ``memory:`` stores: the same log code over bytearrays.
def _nothing() -> None:
    """There is nothing to sync in memory."""


class MemoryFile:
    """A bytearray. Reads return copies, because the array cannot grow while a view of it exists."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, position: int, count: int) -> bytes:
        with memoryview(self._data) as whole:
            return bytes(whole[position : position + count])

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        if position > len(self._data):
            self._data.extend(bytes(position - len(self._data)))
        for part in parts:
            self._data[position : position + len(part)] = part
            position += len(part)

    def truncate(self, size: int) -> None:
        del self._data[size:]

    def syncer(self) -> Callable[[], None]:
        return _nothing

    def read_into(self, position: int, space: memoryview) -> int:
        with memoryview(self._data) as whole:
            found = whole[position : position + len(space)]
            space[: len(found)] = found
            return len(found)

    def reader(self) -> MemoryFile:
        return self

    def close(self) -> None:
        """The bytes stay, as those of a file on disk."""


class MemoryDirectory:
    """Files and folders in dicts. A store that is opened again with the same object finds its data."""

    __slots__ = ("_files", "_folders", "_locked", "_path")

    def __init__(self, path: str = "memory:") -> None:
        self._path = path
        self._files: dict[str, MemoryFile] = {}
        self._folders: dict[str, MemoryDirectory] = {}
        self._locked = False

    @property
    def path(self) -> str:
        return self._path

    def files(self) -> dict[str, int]:
        return {name: file.size for name, file in self._files.items()}

    def folders(self) -> list[str]:
        return list(self._folders)

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = MemoryDirectory(f"{self._path}/{name}")
        try:
            return self._folders[name]
        except KeyError:
            raise FileNotFoundError(f"{self._path}/{name}") from None

    def move_folder(self, old: str, new: str) -> None:
        self._folders[new] = self._folders.pop(old)

    def remove_folder(self, name: str) -> None:
        del self._folders[name]

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        if not create and name not in self._files:
            raise FileNotFoundError(f"{self._path}/{name}")
        return self._files.setdefault(name, MemoryFile())

    def load(self, name: str) -> bytes | None:
        file = self._files.get(name)
        return None if file is None else file.read(0, file.size)

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        del durable
        file = MemoryFile()
        file.write(0, [data])
        self._files[name] = file

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def remove(self, name: str) -> None:
        self._files.pop(name, None)

    def modified_ms(self, name: str) -> int:
        del name
        return 0

    def sync(self) -> None:
        """Nothing to sync."""

    def lock(self) -> None:
        if self._locked:
            raise StoreLocked(f"{self._path} is already open", pid=None)
        self._locked = True

    def unlock(self) -> None:
        self._locked = False
