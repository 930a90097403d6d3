"""PowerDisk: a disk in memory with a page cache, which loses power at any of its operations.

Until a file is synced, each of its pages may have reached the platter in any version since the last sync, and so may
its size. Names of files and folders reach it in the order of their changes (``journaled``, as ext4 and XFS have it), or
any of them do and any do not, until their directory is synced. What must not live here: anything about records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeVar

from penstock.store.errors import StoreLocked
from penstock.store.filesystem import Buffer

__all__ = ["PowerDirectory", "PowerFile", "PowerLost", "Surface"]


T = TypeVar("T")


class PowerLost(BaseException):
    """The machine is off: nothing that runs may catch this."""


class _Change(NamedTuple):
    """An entry of a directory: made (``old`` is None), removed (``new`` is None) or renamed."""

    directory: PowerDirectory
    old: str | None
    new: str | None
    node: PowerFile | PowerDirectory | None


@dataclass(eq=False)
class Surface:
    """What all files of one disk share. ``left``: operations until the power goes, None for never."""

    random: Random
    page: int
    journaled: bool
    left: int | None = None
    now_ms: int = 0
    operations: int = 0
    off: bool = False
    stamp: int = 0
    changes: list[_Change] = field(default_factory=list)

    def operate(self) -> None:
        """Count an operation. Raises PowerLost."""
        self.operations += 1
        if self.left is not None:
            self.left -= 1
            self.off = self.off or self.left < 0
        if self.off:
            raise PowerLost

    def next_stamp(self) -> int:
        """A number for a version: later ones are larger."""
        self.stamp += 1
        return self.stamp


Versions = list[tuple[int, bytes]]


class PowerFile:
    """Bytes as the process sees them, and the versions of each page and of the size that the platter may have."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._data = bytearray()
        self._pages: dict[int, Versions] = {}
        self._sizes: list[tuple[int, int]] = [(0, 0)]
        self.modified_ms = surface.now_ms

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, position: int, count: int) -> bytes:
        return bytes(self._data[position : position + count])

    def read_into(self, position: int, space: memoryview) -> int:
        found = self._data[position : position + len(space)]
        space[: len(found)] = found
        return len(found)

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        try:
            self._surface.operate()
        except PowerLost:
            data = data[: self._surface.random.randrange(len(data) + 1)]
            self._put(position, data)
            raise
        self._put(position, data)

    def _put(self, position: int, data: bytes) -> None:
        if not data:
            return
        if position > len(self._data):
            self._data.extend(bytes(position - len(self._data)))
        self._data[position : position + len(data)] = data
        self._changed(position, position + len(data))

    def truncate(self, size: int) -> None:
        self._surface.operate()
        before = len(self._data)
        del self._data[size:]
        self._data.extend(bytes(size - len(self._data)))
        self._changed(min(size, before), max(size, before))

    def _changed(self, begin: int, end: int) -> None:
        page, stamp = self._surface.page, self._surface.next_stamp()
        for number in range(begin // page, -(-end // page)):
            content = bytes(self._data[number * page : (number + 1) * page])
            self._pages.setdefault(number, [(0, b"")]).append((stamp, content))
        if self._sizes[-1][1] != len(self._data):
            self._sizes.append((stamp, len(self._data)))
        self.modified_ms = self._surface.now_ms

    def syncer(self) -> Callable[[], None]:
        until = self._surface.stamp

        def sync() -> None:
            self._surface.operate()
            self._sizes = _since(self._sizes, until)
            self._pages = {number: _since(versions, until) for number, versions in self._pages.items()}

        return sync

    def reader(self) -> PowerFile:
        return self

    def close(self) -> None:
        """The bytes stay."""

    def after(self, surface: Surface, *, power: bool) -> PowerFile:
        """What the next machine, or only the next process, finds."""
        if not power:
            return self
        left = PowerFile(surface)
        random, page = surface.random, surface.page
        _, size = random.choice(self._sizes)
        data = bytearray(size)
        for number, versions in self._pages.items():
            _, content = random.choice(versions) if random.random() < 0.7 else versions[-1]
            at = number * page
            data[at : at + len(content)] = content
        del data[size:]
        left._data = data
        left._sizes = [(0, size)]
        left._pages = {at // page: [(0, bytes(data[at : at + page]))] for at in range(0, size, page)}
        left.modified_ms = self.modified_ms
        return left


def _since(versions: list[tuple[int, T]], until: int) -> list[tuple[int, T]]:
    """The newest version up to a stamp, and all later ones."""
    kept = sum(stamp <= until for stamp, _ in versions) - 1
    return versions[max(kept, 0) :]


class PowerDirectory:
    """Entries as the process sees them, and those that the platter has for certain."""

    def __init__(self, surface: Surface, path: str = "power:") -> None:
        self.surface = surface
        self._path = path
        self._entries: dict[str, PowerFile | PowerDirectory] = {}
        self._durable: dict[str, PowerFile | PowerDirectory] = {}
        self._locked = False

    @property
    def path(self) -> str:
        return self._path

    def files(self) -> dict[str, int]:
        return {name: node.size for name, node in self._entries.items() if isinstance(node, PowerFile)}

    def folders(self) -> list[str]:
        return [name for name, node in self._entries.items() if isinstance(node, PowerDirectory)]

    def folder(self, name: str, *, create: bool = False) -> PowerDirectory:
        if create and name not in self._entries:
            self._change(None, name, PowerDirectory(self.surface, f"{self._path}/{name}"))
        found = self._entries.get(name)
        if not isinstance(found, PowerDirectory):
            raise FileNotFoundError(f"{self._path}/{name}")
        return found

    def move_folder(self, old: str, new: str) -> None:
        self.rename(old, new)

    def remove_folder(self, name: str) -> None:
        folder = self.folder(name)
        for inner in list(folder._entries):
            folder.remove(inner)
        self._change(name, None, None)

    def open(self, name: str, *, create: bool = True) -> PowerFile:
        if create and name not in self._entries:
            self._change(None, name, PowerFile(self.surface))
        found = self._entries.get(name)
        if not isinstance(found, PowerFile):
            raise FileNotFoundError(f"{self._path}/{name}")
        return found

    def load(self, name: str) -> bytes | None:
        found = self._entries.get(name)
        return found.read(0, found.size) if isinstance(found, PowerFile) else None

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        temporary = f"{name}.{self.surface.next_stamp()}.tmp"
        file = self.open(temporary)
        file.write(0, [data])
        if durable:
            file.syncer()()
        self.rename(temporary, name)
        if durable:
            self.sync()

    def rename(self, old: str, new: str) -> None:
        if old not in self._entries:
            raise FileNotFoundError(f"{self._path}/{old}")
        self._change(old, new, self._entries[old])

    def remove(self, name: str) -> None:
        if name in self._entries:
            self._change(name, None, None)

    def _change(self, old: str | None, new: str | None, node: PowerFile | PowerDirectory | None) -> None:
        self.surface.operate()
        change = _Change(self, old, new, node)
        _apply(self._entries, change)
        self.surface.changes.append(change)

    def modified_ms(self, name: str) -> int:
        return self.open(name, create=False).modified_ms

    def sync(self) -> None:
        surface = self.surface
        surface.operate()
        mine = [row for row, change in enumerate(surface.changes) if change.directory is self]
        if mine and surface.journaled:  # one journal for all: what came before goes with it
            done = surface.changes[: mine[-1] + 1]
            del surface.changes[: mine[-1] + 1]
        else:
            done = [surface.changes[row] for row in mine]
            surface.changes = [change for change in surface.changes if change.directory is not self]
        for change in done:
            _apply(change.directory._durable, change)

    def lock(self) -> None:
        if self._locked:
            raise StoreLocked(f"{self._path} is already open", pid=None)
        self._locked = True

    def unlock(self) -> None:
        self._locked = False

    def after(self, *, power: bool) -> PowerDirectory:
        """The disk as the next process finds it: all that was written, or what is left without ``power``."""
        old = self.surface
        if not power:
            old.off, old.left = False, None
            self._locked = False
            return self
        kept = old.random.choice((0.1, 0.5, 0.9))
        if old.journaled:
            done = old.changes[: old.random.randrange(len(old.changes) + 1)]
        else:
            done = [change for change in old.changes if old.random.random() < kept]
        for change in done:
            _apply(change.directory._durable, change)
        return self._left(Surface(old.random, old.page, old.journaled, now_ms=old.now_ms, stamp=old.stamp))

    def _left(self, surface: Surface) -> PowerDirectory:
        left = PowerDirectory(surface, self._path)
        for name, node in self._durable.items():
            left._entries[name] = (
                node.after(surface, power=True) if isinstance(node, PowerFile) else node._renamed(surface, name, self)
            )
        left._durable = dict(left._entries)
        return left

    def _renamed(self, surface: Surface, name: str, parent: PowerDirectory) -> PowerDirectory:
        self._path = f"{parent._path}/{name}"
        return self._left(surface)


def _apply(entries: dict[str, PowerFile | PowerDirectory], change: _Change) -> None:
    if change.old is not None:
        entries.pop(change.old, None)
    if change.new is not None and change.node is not None:
        entries[change.new] = change.node
