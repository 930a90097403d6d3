"""`Directory` and `File` on a local file system, by file descriptor.

What must not live here: anything about records.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from penstock.store._directory import Buffer
from penstock.store.errors import StoreLocked

__all__ = ["DiskDirectory", "DiskFile"]

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
            # A full disk writes what fits and reports the error only when asked for the rest.
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
        # Two threads may replace one file (a flush beside the owner), so each writes its own temporary file first.
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
            os.close(self._lock)  # the lock goes with the descriptor
            self._lock = None
