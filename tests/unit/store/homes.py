"""Places for stores under test that can be opened, crashed and damaged; batches to store; reading all of a log."""

import copy
import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.model import Codec
from penstock.records import decode_v2, encode_v2
from penstock.records.batch import Producing
from penstock.store import PartitionLog, Store, StoreConfig
from penstock.store.filesystem import Directory, DiskDirectory, DiskFile, MemoryDirectory
from penstock.store.partition_folder import PartitionFolder

NOW = 1_700_000_000_000
"""A wall clock for tests, ms."""

BIG = 1 << 30


class HastyFile(DiskFile):
    """A file of `HastyDisk`."""

    def syncer(self) -> Callable[[], None]:
        return lambda: None


class HastyDisk(DiskDirectory):
    """A disk that does not wait for the platter: tests crash processes, not power, and there are hundreds of them."""

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        del durable
        super().replace(name, data, durable=False)

    def sync(self) -> None:
        """Later."""

    def open(self, name: str, *, create: bool = True) -> HastyFile:
        return HastyFile(self._path / name, create=create)


class Home:
    """A store's directory and the stores that were opened in it; `close` closes what a test left open."""

    def __init__(self, directory: Directory, path: Path | None) -> None:
        self.directory = directory
        self.path = path
        self._stores: list[Store] = []
        self._copies: list[Home] = []

    def open(self, *, repair: bool = False, now_ms: int = NOW, **options: object) -> Store:
        store = Store(self.directory, StoreConfig(**options), now_ms=now_ms, repair=repair)  # type: ignore[arg-type]
        self._stores.append(store)
        return store

    def crash(self) -> "Home":
        """What is left when the process dies now: the files as they are, without a clean shutdown."""
        if isinstance(self.directory, MemoryDirectory):
            left = Home(copy.deepcopy(self.directory), None)
            left.directory.unlock()
        else:
            assert self.path is not None
            path = self.path.with_name(f"{self.path.name}+{len(self._copies)}")
            shutil.copytree(self.path, path)
            left = Home(HastyDisk(path), path)
        self._copies.append(left)
        return left

    def load(self, folder: str, name: str) -> bytes:
        data = self.directory.folder(folder).load(name)
        assert data is not None, name
        return data

    def damage(self, folder: str, name: str, data: bytes) -> None:
        """Replace a file's bytes."""
        self.directory.folder(folder).replace(name, data, durable=False)

    def point(self) -> int:
        """The recovery point on the disk."""
        return PartitionFolder(self.directory, "t", 0, bytes(16), exists=True).load_point()

    def names(self, folder: str, suffix: str) -> list[str]:
        return sorted(name for name in self.directory.folder(folder).files() if name.endswith(suffix))

    def close(self) -> None:
        for store in self._stores:
            store.close()
        for home in self._copies:
            home.close()


def homes(kind: str, tmp_path: Path) -> Iterator[Home]:
    """One home of a kind ("disk" or "memory"), closed afterwards."""
    path = tmp_path / "store"
    if kind == "disk":
        path.mkdir()
    home = Home(HastyDisk(path), path) if kind == "disk" else Home(MemoryDirectory(), None)
    yield home
    home.close()


def batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    times: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """One batch v2; ``producer`` is (id, epoch, first sequence)."""
    rows = pa.record_batch(
        {
            "key": pa.array(keys or [None] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(times or [NOW] * len(values), pa.int64()),
        }
    )
    return bytes(encode_v2(rows, codec=codec, producing=Producing(*producer) if producer else Producing()))


def read_records(log: PartitionLog, start: int | None = None, max_bytes: int = 1_000) -> list[tuple[int, bytes]]:
    """All (offset, value) from ``start`` to the end, read piece by piece."""
    offset = log.start_offset if start is None else start
    found: list[tuple[int, bytes]] = []
    for _ in itertools.count():
        piece = log.read(offset, max_bytes)
        if not piece.data:
            assert piece.next_offset == log.end_offset
            if offset == log.end_offset:
                return found
        else:
            rows = decode_v2(piece.data, columns=["offset", "value"], start=offset).batch
            found += zip(rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True)
        assert piece.next_offset > offset
        offset = piece.next_offset
    raise AssertionError
