"""When bytes reach the disk, and what is said when they do not."""

import threading
from collections.abc import Callable

import pytest

from penstock.errors import ConfigError, WriteFailed
from penstock.store import FlushPolicy, StoreConfig, open_store
from penstock.store.filesystem import MemoryDirectory, MemoryFile
from penstock.store.store import Store
from tests.unit.store.homes import NOW, Home, batch, read_records


def test_only_the_policy_always_asks_for_a_sync_before_acknowledging(home: Home) -> None:
    for policy in FlushPolicy:
        store = home.open(flush=policy)
        store.create_topic(policy, 1)
        log = store.log(policy, 0)
        assert not log.sync_needed
        log.append(batch([b"x"]), now_ms=NOW)
        assert log.sync_needed == (policy is FlushPolicy.ALWAYS)
        log.flush()
        assert not log.sync_needed
        assert log.flushed_offset == 1
        store.close()


def test_the_interval_is_kept(home: Home) -> None:
    store = home.open(flush=FlushPolicy.INTERVAL, flush_interval_ms=100)
    store.create_topic("t", 2)
    assert not store.flush_due(NOW + 1_000)
    store.log("t", 1).append(batch([b"x"]), now_ms=NOW)
    assert not store.flush_due(NOW + 99)
    assert store.flush_due(NOW + 100)
    for flush in store.prepare_flush(NOW + 100):
        flush.run()
        flush.finish()
    assert not store.flush_due(NOW + 1_000)
    assert store.log("t", 1).flushed_offset == 1


def test_a_topic_may_want_a_sync_after_so_many_records(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"flush.messages": "3"})
    log = store.log("t", 0)
    for wanted in (False, True):
        log.append(batch([b"x"] * 2), now_ms=NOW)
        assert log.sync_needed == wanted
    log.flush()
    assert not log.sync_needed


def test_a_topic_may_want_a_sync_after_so_long(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"flush.ms": "100"})
    log = store.log("t", 0)
    for begin in (NOW, NOW + 1_000):
        log.append(batch([b"x"]), now_ms=begin)
        log.append(batch([b"x"]), now_ms=begin + 50)
        assert (store.flush_due(begin + 99), store.flush_due(begin + 100)) == (False, True)
        store.flush()
        assert not store.flush_due(begin + 100)


def test_a_closed_segment_is_synced_whatever_the_policy(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"segment.bytes": "100"})
    store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
    assert not store.flush_due(NOW + 10**9)
    store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
    assert store.flush_due(NOW)
    store.flush()
    assert not store.flush_due(NOW)
    assert home.point() == 2


def test_appends_and_deletions_go_on_while_another_thread_syncs(home: Home) -> None:
    store = home.open(flush=FlushPolicy.ALWAYS, max_open_segments=1)
    store.create_topic("t", 1, {"segment.bytes": "100"})
    store.create_topic("u", 1)
    log = store.log("t", 0)
    for name in ("t", "t", "t", "u"):
        store.log(name, 0).append(batch([b"x"]), now_ms=NOW)
    flushes = list(store.prepare_flush(NOW))
    log.append(batch([b"later"]), now_ms=NOW)
    log.delete_records(2)
    store.delete_topic("u")
    threads = [threading.Thread(target=flush.run) for flush in flushes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.flushed_offset == 0
    for flush in flushes:
        flush.finish()
    assert log.flushed_offset == 3
    assert log.sync_needed
    log.flush()
    assert not log.sync_needed


def test_a_log_that_goes_while_others_are_flushed_is_passed_over(home: Home) -> None:
    store = home.open()
    for name in ("t", "u", "v"):
        store.create_topic(name, 1)
        store.log(name, 0).append(batch([b"x"]), now_ms=NOW)
    flushes = store.prepare_flush(NOW)
    first = next(flushes)
    first.run()
    first.finish()
    left = [name for name in ("t", "u", "v") if not store.log(name, 0).flushed_offset]
    store.delete_topic(left[0])
    (second,) = flushes
    second.run()
    second.finish()
    assert store.log(left[1], 0).flushed_offset == 1
    flushes = store.prepare_flush(NOW)
    store.close()
    assert list(flushes) == []


def test_compaction_of_a_segment_that_waits_for_its_sync_leaves_nothing_to_wait_for(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    log = store.log("t", 0)
    for _ in range(3):
        log.append(batch([b"x"], keys=[b"k"]), now_ms=NOW)
        log.flush()
        log.roll()  # closed after its bytes were synced: its indexes are not
    assert store.flush_due(NOW)
    (compaction,) = store.prepare_compaction(NOW)
    compaction.run()
    done = compaction.finish()
    assert done is not None
    assert done.segments_after < done.segments_before
    store.flush()
    assert not store.flush_due(NOW)
    store.set_config("t", {"cleanup.policy": "compact", "flush.messages": "1"})
    log.append(batch([b"y"], keys=[b"k"]), now_ms=NOW)
    log.flush()
    assert log.flushed_offset == 4
    assert not log.failed
    store.close()
    assert home.open().recovered == []


def test_a_flush_beside_another_does_not_rely_on_what_that_one_has_not_synced_yet() -> None:
    directory = CountingDirectory()
    with Store(directory, StoreConfig(flush=FlushPolicy.ALWAYS), now_ms=NOW) as store:
        store.create_topic("t", 1)
        log = store.log("t", 0)
        log.append(batch([b"x"]), now_ms=NOW)
        first = log.prepare_flush()  # its waiter goes away before a thread takes it
        log.append(batch([b"y"]), now_ms=NOW)
        folder = directory.folder("t-0")
        assert isinstance(folder, CountingDirectory)
        log.flush()
        assert folder.synced == 1
        assert first is not None
        first.run()


def test_names_that_a_killed_process_left_are_synced_before_anything_is_acknowledged() -> None:
    directory = CountingDirectory()
    store = Store(directory, StoreConfig(flush=FlushPolicy.ALWAYS), now_ms=NOW)
    store.create_topic("t", 1)
    store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
    directory.unlock()
    folder = directory.folder("t-0")
    assert isinstance(folder, CountingDirectory)
    assert folder.synced == 0
    with Store(directory, StoreConfig(flush=FlushPolicy.ALWAYS), now_ms=NOW) as store:
        log = store.log("t", 0)
        assert log.sync_needed
        log.flush()
        assert folder.synced == 1


class CountingDirectory(MemoryDirectory):
    """Counts how often its names were synced."""

    def __init__(self, path: str = "memory:") -> None:
        super().__init__(path)
        self.synced = 0

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = CountingDirectory(f"{self.path}/{name}")
        return super().folder(name)

    def sync(self) -> None:
        self.synced += 1


@pytest.mark.parametrize("how", ["retention", "request"])
def test_deletions_are_synced_soon_whatever_the_policy(home: Home, how: str) -> None:
    store = home.open()
    store.create_topic("t", 1, {"retention.ms": "1000"})
    log = store.log("t", 0)
    log.append(batch([b"x"]), now_ms=NOW)
    log.roll()
    store.flush()
    assert not store.flush_due(NOW)
    if how == "retention":
        assert log.enforce_retention(NOW + 5_000)
    else:
        log.delete_records(1)
    assert store.flush_due(NOW)
    for flush in store.prepare_flush(NOW):
        flush.run()
        flush.finish()
    assert not store.flush_due(NOW)


def test_a_request_for_what_retention_has_deleted_is_durable_all_the_same(home: Home) -> None:
    """Until the next flush, a power loss may bring the segment back, but not the records that a client deleted."""
    store = home.open()
    store.create_topic("t", 1, {"retention.ms": "1000"})
    log = store.log("t", 0)
    log.append(batch([b"x"]), now_ms=NOW)
    log.roll()
    segment = {name: home.load("t-0", name) for name in home.names("t-0", ".log")[:1]}
    assert log.enforce_retention(NOW + 5_000)
    assert log.delete_records(1) == 1
    left = home.crash()
    for name, data in segment.items():
        left.damage("t-0", name, data)
    assert read_records(left.open().log("t", 0)) == []


def test_a_late_flush_of_a_deleted_topic_writes_nothing_for_its_successor(home: Home) -> None:
    """Its thread comes when a topic of that name is there again: a recovery point of 9 would refuse the next start."""
    store = home.open()
    store.create_topic("t", 1, {"segment.bytes": "100"})
    for _ in range(9):
        store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
    (late,) = store.prepare_flush(NOW)
    store.delete_topic("t")
    store.create_topic("t", 1)
    store.log("t", 0).append(batch([b"y"]), now_ms=NOW)
    late.run()
    late.finish()
    left = home.crash()
    assert left.point() == 0
    assert read_records(left.open().log("t", 0)) == [(0, b"y")]


def test_a_compaction_that_stops_half_way_stops_the_log_until_it_is_opened_again() -> None:
    directory = StickyDirectory()
    store = Store(directory, StoreConfig(), now_ms=NOW)
    store.create_topic("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    log = store.log("t", 0)
    for value in (b"1", b"2"):
        log.append(batch([value], keys=[b"k"]), now_ms=NOW)
        log.roll()
    log.append(batch([b"3"], keys=[b"l"]), now_ms=NOW)
    log.flush()
    (compaction,) = store.prepare_compaction(NOW)
    compaction.run()
    folder = directory.folder("t-0")
    assert isinstance(folder, StickyDirectory)
    folder.renames = 1
    with pytest.raises(WriteFailed, match="put in place"):
        compaction.finish()
    with pytest.raises(WriteFailed):
        log.append(batch([b"4"]), now_ms=NOW)
    with pytest.raises(WriteFailed):
        store.close()
    folder.renames = 100
    again = Store(directory, StoreConfig(), now_ms=NOW)
    assert read_records(again.log("t", 0)) == [(1, b"2"), (2, b"3")]
    again.close()


class StickyDirectory(MemoryDirectory):
    """A directory whose files can be renamed only so often."""

    renames = 100

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = StickyDirectory(name)
        return super().folder(name)

    def rename(self, old: str, new: str) -> None:
        if not self.renames:
            raise OSError(5, "Input/output error")
        self.renames -= 1
        super().rename(old, new)


def test_a_flush_that_did_not_run_promises_nothing(home: Home) -> None:
    store = home.open(flush=FlushPolicy.ALWAYS)
    store.create_topic("t", 1)
    store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
    (flush,) = store.prepare_flush(NOW)
    flush.finish()
    assert store.log("t", 0).sync_needed
    flush.run()


class SickFile(MemoryFile):
    """A file whose next sync fails, and whose later ones do not, as Linux has it: what was lost is not tried again."""

    sick = True

    def syncer(self) -> Callable[[], None]:
        def sync() -> None:
            if self.sick:
                self.sick = False
                raise OSError(5, "Input/output error")

        return sync


class SickDirectory(MemoryDirectory):
    """A directory where the log of t-0 cannot be synced."""

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = SickDirectory(name)
        return super().folder(name)

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        del create
        return self._files.setdefault(name, SickFile() if (self.path, name[-4:]) == ("t-0", ".log") else MemoryFile())


def test_after_a_failed_sync_nothing_is_appended_until_the_store_is_opened_again() -> None:
    directory = SickDirectory()
    store = Store(directory, StoreConfig(flush=FlushPolicy.ALWAYS), now_ms=NOW)
    store.create_topic("t", 2)
    log = store.log("t", 0)
    log.append(batch([b"x"]), now_ms=NOW)
    with pytest.raises(WriteFailed) as caught:
        log.flush()
    assert caught.value.topic == "t"
    assert log.sync_needed
    for call in (lambda: log.append(batch([b"y"]), now_ms=NOW), log.flush, store.flush):
        with pytest.raises(WriteFailed):
            call()
    assert log.flushed_offset == 0
    assert log.failed
    store.log("t", 1).append(batch([b"x"]), now_ms=NOW)  # the others go on
    store.log("t", 1).flush()
    assert list(store.prepare_flush(NOW)) == []
    assert read_records(log) == [(0, b"x")]
    with pytest.raises(WriteFailed):
        store.close()
    again = Store(directory, StoreConfig(), now_ms=NOW)
    assert again.log("t", 0).append(batch([b"y"]), now_ms=NOW).base_offset == 1


@pytest.mark.parametrize("url", ["", "memory", "memory:x", "file:", "file://", "disk:x", "/tmp/x"])
def test_a_url_that_is_no_stores_says_what_one_looks_like(url: str) -> None:
    with pytest.raises(ConfigError, match="file:DIRECTORY"):
        open_store(url)


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="os, interval, always"):
        open_store("memory:", flush="sometimes")


def test_options_are_checked_with_their_bounds() -> None:
    with pytest.raises(ConfigError, match="segment_bytes is 0"):
        StoreConfig(segment_bytes=0)


def test_a_file_url_makes_its_directory(disk: Home) -> None:
    assert disk.path is not None
    for url in (f"file:{disk.path}/a/b", f"file://{disk.path}/a/c"):
        with open_store(url, flush="always") as store:
            store.create_topic("t", 1)
        with open_store(url) as store:
            assert store.topics()[0].name == "t"
