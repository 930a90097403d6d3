"""SimDisk: a disk in memory that survives its node: all of it a kill, what was synced a loss of power.

What a dead node still writes goes to a disk that nobody reads. What must not live here: anything about records.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.store.filesystem import MemoryDirectory, MemoryFile

__all__ = ["SimDisk", "SimFile"]


class SimFile(MemoryFile):
    """``synced``: what the platter has."""

    __slots__ = ("synced",)

    def __init__(self) -> None:
        super().__init__()
        self.synced = b""

    def syncer(self) -> Callable[[], None]:
        data = bytes(self._data)

        def sync() -> None:
            self.synced = data

        return sync

    def reader(self) -> SimFile:
        return self

    def after(self, dice: Random | None) -> SimFile:
        """What is left of it: everything, or, with dice, what was synced and some of what was written behind it."""
        left = SimFile()
        data = bytes(self._data)
        if dice is not None and data != self.synced:
            kept = (
                len(self.synced) + dice.randrange(len(data) - len(self.synced) + 1)
                if len(data) >= len(self.synced) and data.startswith(self.synced)
                else len(data)
            )
            data = data[:kept]
        left.write(0, [data])
        left.synced = data
        return left


class SimDisk(MemoryDirectory):
    """Names are as durable as it gets, contents of files only once they are synced."""

    __slots__ = ()

    def folder(self, name: str, *, create: bool = False) -> SimDisk:
        if create and name not in self._folders:
            self._folders[name] = SimDisk(f"{self._path}/{name}")
        found = super().folder(name)
        assert isinstance(found, SimDisk)
        return found

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        if create and name not in self._files:
            self._files[name] = SimFile()
        return super().open(name, create=create)

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        file = SimFile()
        file.write(0, [data])
        file.synced = data
        self._files[name] = file

    def after(self, dice: Random | None) -> SimDisk:
        """What the next node finds: after the process's death, or with dice after a loss of power."""
        left = SimDisk(self._path)
        for name, file in self._files.items():
            assert isinstance(file, SimFile)
            left._files[name] = file.after(dice)
        for name, folder in self._folders.items():
            assert isinstance(folder, SimDisk)
            left._folders[name] = folder.after(dice)
        return left
