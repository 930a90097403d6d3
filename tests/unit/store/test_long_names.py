"""Every legal name fits into a directory, whatever becomes of its topic; and what names that did not fit left, opens.

On real directories: a file system gives a name 255 bytes, and memory does not know that.
"""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import WriteFailed
from penstock.store import StoreConfig
from penstock.store.filesystem import DiskDirectory
from penstock.store.store import Store
from tests.unit.store.homes import NOW, HastyDisk, Home, batch, read_records

LENGTHS = [*range(1, 200, 9), *range(200, 250)]
PARTITION = 9_999
"""The last one that a topic may have: four digits."""


def named(length: int) -> str:
    return f"{length}" + "n" * (length - len(str(length)))


def fill(store: Store, name: str, partitions: int) -> None:
    store.create_topic(name, partitions, {"cleanup.policy": "compact", "segment.bytes": "200"})
    log = store.log(name, partitions - 1)
    for value in (b"a", b"b", b"c"):
        log.append(batch([value], keys=[b"k"], times=[NOW]), now_ms=NOW)


def compact(store: Store) -> None:
    store.flush()
    for compaction in store.prepare_compaction(NOW):
        compaction.run()
        assert compaction.finish() is not None


def test_topics_of_all_lengths_are_written_compacted_found_again_and_deleted(disk: Home) -> None:
    store = disk.open()
    for length in LENGTHS:
        fill(store, named(length), 1 + length % 12)
    compact(store)
    left = disk.crash()
    again = left.open()
    for length in LENGTHS:
        assert read_records(again.log(named(length), length % 12))[-1] == (2, b"c")
        again.delete_topic(named(length))
    assert left.directory.folders() == []
    again.close()
    assert left.open().topics() == []


@pytest.mark.parametrize("length", [1, 213, 246, 249])
def test_a_crash_at_any_step_of_a_deletion_leaves_a_store_that_opens(disk: Home, length: int) -> None:
    store = disk.open()
    fill(store, named(length), 12)
    fill(store, "other", 1)
    assert disk.path is not None
    for steps in range(20):
        left = disk.crash()
        assert left.path is not None
        again = Store(Interrupted(left.path, steps), StoreConfig(), now_ms=NOW)
        try:
            again.delete_topic(named(length))
        except WriteFailed:
            over = False
        else:
            over = True
        again.abandon()
        after = left.open()
        deleted = over or steps > 0
        assert [topic.name for topic in after.topics()] == (["other"] if deleted else [named(length), "other"])
        assert not deleted or left.directory.folders() == ["other-0"]
        assert read_records(after.log("other", 0))[-1] == (2, b"c")
        if over:
            assert steps > 2
            return
    raise AssertionError("the deletion never came to its end")


class Interrupted(HastyDisk):
    """A disk that takes so many changes, and no more: what a process leaves that was killed there."""

    __slots__ = ("_left",)

    def __init__(self, path: Path, changes: int) -> None:
        super().__init__(path)
        self._left = changes + 1  # opening the store is one

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError("the process is gone")

    def folder(self, name: str, *, create: bool = False) -> HastyDisk:
        del create
        return HastyDisk(self._path / name)

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        self._change()
        super().replace(name, data, durable=durable)

    def move_folder(self, old: str, new: str) -> None:
        self._change()
        super().move_folder(old, new)

    def remove_folder(self, name: str) -> None:
        for file in self.folder(name).files():
            self._change()
            self.folder(name).remove(file)
        super().remove_folder(name)


@settings(max_examples=20)
@given(length=st.integers(1, 249), partition=st.integers(0, 11), suffix=st.sampled_from([None, "", ".{id}"]))
@example(length=249, partition=PARTITION, suffix=None)
@example(length=246, partition=0, suffix=None)
def test_what_earlier_versions_left_of_a_deletion_is_swept(
    tmp_path_factory: pytest.TempPathFactory, length: int, partition: int, suffix: str | None
) -> None:
    """They renamed ``topic-0`` to ``topic-0.ID.deleted``, later ``topic-0.deleted``, where that fitted."""
    path = tmp_path_factory.mktemp("left")
    name = named(length)
    with Store(HastyDisk(path), StoreConfig(), now_ms=NOW) as store:
        fill(store, name, partition + 1)
        topic = store.topic(name)
    assert topic is not None
    after = f"{name}-{partition}" + ("" if suffix is None else suffix.format(id=topic.id.hex()) + ".deleted")
    if len(after) <= 255:
        HastyDisk(path).move_folder(f"{name}-{partition}", after)
    store._catalog.remove(name)
    store._catalog.save(HastyDisk(path))
    with Store(HastyDisk(path), StoreConfig(), now_ms=NOW) as again:
        assert HastyDisk(path).folders() == []
        fill(again, name, partition + 1)
        assert again.log(name, partition).end_offset == 3


def test_a_directory_whose_metadata_the_power_took_does_not_come_back_with_a_new_topic(home: Home) -> None:
    store = home.open()
    fill(store, "t", 1)
    left = home.crash()
    store.delete_topic("t")
    left.directory.replace("store.json", home.directory.load("store.json") or b"", durable=False)
    left.directory.folder("t-0").remove("partition.metadata")
    again = left.open()
    assert left.directory.folders() == []
    again.create_topic("t", 1)
    assert again.log("t", 0).end_offset == 0


def test_a_leftover_that_cannot_be_deleted_keeps_no_store_from_opening(disk: Home) -> None:
    store = disk.open()
    fill(store, "t", 1)
    fill(store, "u", 1)
    topic = store.topic("t")
    assert topic is not None
    store._catalog.remove("t")
    store.close()
    store._catalog.save(disk.directory)

    class Stubborn(DiskDirectory):
        def remove_folder(self, name: str) -> None:
            raise PermissionError(13, f"Permission denied: {name}")

    assert disk.path is not None
    with Store(Stubborn(disk.path), StoreConfig(), now_ms=NOW) as again:
        assert read_records(again.log("u", 0))[-1] == (2, b"c")
        fill(again, "t", 1)
        assert again.log("t", 0).end_offset == 3
    with disk.open() as again:
        assert set(disk.directory.folders()) == {"t-0", "u-0"}
        assert again.log("t", 0).end_offset == 3
