"""A store of many logs is closed in the time there is, and the next start is right whatever was left undone."""

import threading
from collections.abc import Callable

import pytest

from penstock.store import StoreConfig
from penstock.store.filesystem import MemoryDirectory, MemoryFile
from penstock.store.store import Store
from tests.unit.store.homes import NOW, Home, batch, read_records


def filled(store: Store, partitions: int) -> None:
    store.create_topic("t", partitions)
    for partition in range(partitions):
        store.log("t", partition).append(batch([b"%d" % partition]), now_ms=NOW)


@pytest.mark.parametrize("within_s", [0.0, 0.002, 60.0, None])
def test_nothing_is_lost_by_closing_without_enough_time(home: Home, within_s: float | None) -> None:
    store = home.open()
    filled(store, 40)
    store.close(within_s)
    for again in (home.crash(), home):
        opened = again.open()
        assert opened.recovered == []
        for partition in range(40):
            assert read_records(opened.log("t", partition)) == [(0, b"%d" % partition)]
            opened.log("t", partition).append(batch([b"more"]), now_ms=NOW)
        opened.close()
        assert [log.end_offset for log in again.open().logs()] == [2] * 40


def test_the_note_names_only_logs_that_are_on_the_disk(home: Home) -> None:
    store = home.open()
    filled(store, 3)
    store.log("t", 1).flush()
    store.close(0.0)
    note = home.directory.load("clean-shutdown.json") or b""
    assert b'"t-0"' not in note
    assert home.open().log("t", 0).end_offset == 1


class Together(MemoryFile):
    """A file whose syncs wait until some of them run at once."""

    meet = threading.Barrier(4, timeout=20)

    def syncer(self) -> Callable[[], None]:
        def sync() -> None:
            self.meet.wait()

        return sync


class Disk(MemoryDirectory):
    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = Disk(name)
        return super().folder(name)

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        if name.endswith(".log") and name not in self._files:
            self._files[name] = Together()
        return super().open(name, create=create)


def test_many_logs_are_synced_at_once() -> None:
    directory = Disk()
    store = Store(directory, StoreConfig(), now_ms=NOW)
    filled(store, 12)
    store.close()
    assert [log.end_offset for log in Store(directory, StoreConfig(), now_ms=NOW).logs()] == [1] * 12


def test_retention_makes_no_directory_for_a_partition_without_records(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 50, {"retention.ms": "1"})
    assert store.enforce_retention(NOW + 10**9) == []
    assert home.directory.folders() == []


class Short(MemoryDirectory):
    """A process that has so many descriptors left for logs."""

    left = 2

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = Short(name)
        return super().folder(name)

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        if not name.endswith(".log"):
            return super().open(name, create=create)
        if not Short.left:
            raise OSError(24, "Too many open files")
        Short.left -= 1
        lent = Lent()
        lent._data = super().open(name, create=create)._data
        return lent


class Lent(MemoryFile):
    def close(self) -> None:
        Short.left += 1


def test_logs_are_closed_when_descriptors_run_out() -> None:
    store = Store(Short(), StoreConfig(), now_ms=NOW)
    store.create_topic("t", 8)
    for _ in range(3):
        for partition in range(8):
            store.log("t", partition).append(batch([b"x"]), now_ms=NOW)
    assert Short.left >= 0
    for partition in range(8):
        log = store.log("t", partition)
        assert len(read_records(log)) == log.end_offset == 3
