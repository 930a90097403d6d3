"""`Directory` and `File` in memory, for ``memory:`` stores: the same log code over bytearrays.

What must not live here: anything about records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.store._directory import Buffer
from penstock.store.errors import StoreLocked

__all__ = ["MemoryDirectory", "MemoryFile"]


def _nothing() -> None:
    """Memory is as durable as it gets."""


class MemoryFile:
    """A bytearray. Reads are copies: a view would keep the array from growing."""

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
        """The bytes stay, as on a disk."""


class MemoryDirectory:
    """Files and folders in dicts. A store opened again over the same object is the same store."""

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
