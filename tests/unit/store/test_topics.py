"""Topics outlive restarts and crashes, and nothing of a deleted topic comes back."""

from pathlib import Path

import pytest

from penstock.errors import (
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    StoreError,
    TopicExists,
    UnknownTopic,
    WriteFailed,
)
from penstock.store import Store, StoreConfig, StoreDamaged, open_store
from penstock.store.catalog import MAX_PARTITIONS
from penstock.store.filesystem import MemoryDirectory
from tests.unit.store.homes import NOW, Home, batch, read_records


def test_topics_and_identity_are_the_same_after_a_restart(home: Home) -> None:
    store = home.open(node_id=7)
    made = [store.create_topic("b", 3, {"retention.ms": "5"}), store.create_topic("a.x", 1)]
    store.set_config("b", {"cleanup.policy": "compact"})
    store.add_partitions("b", 5)
    before = (store.cluster_id, store.node_id, store.topics())
    assert [topic.name for topic in store.topics()] == ["a.x", "b"]
    assert (store.topics()[1].partitions, store.topics()[1].config) == (5, {"cleanup.policy": "compact"})
    for left in (home.crash(), home):
        store.close()
        again = left.open(node_id=9)
        assert (again.cluster_id, again.node_id, again.topics()) == before
        for topic in made:
            assert again.topic_by_id(topic.id) == again.topic(topic.name)
    assert len(before[0]) == 22
    assert len({topic.id for topic in made}) == 2
    assert {len(topic.id) for topic in made} == {16}


def test_what_does_not_exist_is_none(home: Home) -> None:
    store = home.open()
    assert store.topic("t") is None
    assert store.topic_by_id(bytes(16)) is None
    for call in (
        lambda: store.delete_topic("t"),
        lambda: store.add_partitions("t", 2),
        lambda: store.set_config("t", {}),
        lambda: store.log("t", 0),
    ):
        with pytest.raises(UnknownTopic):
            call()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a" * 250, "a\0", "a\n"])
def test_a_name_that_cannot_be_a_directory_is_refused(home: Home, name: str) -> None:
    with pytest.raises(InvalidTopicName):
        home.open().create_topic(name, 1)


@pytest.mark.parametrize("name", ["a", "a" * 249, "...", "__consumer_offsets", "A-1_b.c"])
def test_kafkas_names_are_taken(home: Home, name: str) -> None:
    assert home.open().create_topic(name, 1).name == name


def test_names_that_differ_in_dots_and_underscores_collide(home: Home) -> None:
    store = home.open()
    store.create_topic("a.b", 1)
    with pytest.raises(TopicExists):
        store.create_topic("a.b", 1)
    with pytest.raises(InvalidTopicName):
        store.create_topic("a_b", 1)
    assert [topic.name for topic in store.topics()] == ["a.b"]


@pytest.mark.parametrize("count", [0, -1, MAX_PARTITIONS + 1])
def test_a_topic_has_at_least_one_partition_and_not_too_many(home: Home, count: int) -> None:
    with pytest.raises(InvalidPartitionCount):
        home.open().create_topic("t", count)


def test_partitions_are_only_added(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 2)
    for total in (0, 1, 2):
        with pytest.raises(InvalidPartitionCount):
            store.add_partitions("t", total)
    store.add_partitions("t", 3)
    assert store.log("t", 2).append(batch([b"a"]), now_ms=NOW).base_offset == 0


@pytest.mark.parametrize(
    "config",
    [
        {"segment.bytes": "x"},
        {"segment.bytes": "0"},
        {"segment.bytes": str(2**31)},
        {"retention.ms": "-2"},
        {"retention.bytes": "1.5"},
        {"cleanup.policy": "shred"},
        {"message.timestamp.type": "Tomorrow"},
    ],
)
def test_an_option_the_store_cannot_obey_is_refused_and_changes_nothing(home: Home, config: dict[str, str]) -> None:
    store = home.open()
    with pytest.raises(InvalidTopicConfig) as caught:
        store.create_topic("t", 1, config)
    assert next(iter(config)) in str(caught.value)
    store.create_topic("t", 1, {"other.protocols.option": "kept as it is"})
    with pytest.raises(InvalidTopicConfig):
        store.set_config("t", config)
    assert store.topics()[0].config == {"other.protocols.option": "kept as it is"}


def test_options_take_effect_at_once(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    assert log.append(batch([b"a"]), now_ms=NOW).append_time_ms == -1
    store.set_config("t", {"message.timestamp.type": "LogAppendTime", "segment.bytes": "100"})
    assert log.append(batch([b"a"]), now_ms=NOW).append_time_ms == NOW
    assert log.segments == 2


def test_a_deleted_topic_leaves_nothing_and_its_name_is_free(home: Home) -> None:
    store = home.open()
    first = store.create_topic("t", 2)
    for partition in (0, 1):
        store.log("t", partition).append(batch([b"old"]), now_ms=NOW)
    store.delete_topic("t")
    assert (store.topics(), home.directory.folders()) == ([], [])
    second = store.create_topic("t", 1)
    assert second.id != first.id
    assert store.topic_by_id(first.id) is None
    store.log("t", 0).append(batch([b"new"]), now_ms=NOW)
    assert read_records(home.crash().open().log("t", 0)) == [(0, b"new")]


def test_a_deletion_that_a_crash_interrupted_is_finished(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 3)
    store.create_topic("t-1", 1)
    for topic, partition in (("t", 0), ("t", 1), ("t", 2), ("t-1", 0)):
        store.log(topic, partition).append(batch([b"old"]), now_ms=NOW)
    left = home.crash()
    store.delete_topic("t")
    left.directory.replace("store.json", home.directory.load("store.json") or b"", durable=False)
    left.directory.move_folder("t-0", "t-0.deleted")
    again = left.open()
    assert left.directory.folders() == ["t-1-0"]
    assert read_records(again.log("t-1", 0)) == [(0, b"old")]
    again.create_topic("t", 2)
    assert [again.log("t", partition).end_offset for partition in (0, 1)] == [0, 0]


class Stubborn(MemoryDirectory):
    """A directory that refuses to remove folders for a while."""

    refuses = False

    def remove_folder(self, name: str) -> None:
        if self.refuses:
            raise PermissionError(13, "Permission denied")
        super().remove_folder(name)

    def move_folder(self, old: str, new: str) -> None:
        if self.refuses:
            raise PermissionError(13, "Permission denied")
        super().move_folder(old, new)


def test_a_deletion_that_the_disk_refuses_is_finished_before_the_name_is_used_again() -> None:
    directory = Stubborn()
    store = Store(directory, StoreConfig(), now_ms=NOW)
    store.create_topic("t", 1)
    store.log("t", 0).append(batch([b"old"]), now_ms=NOW)
    directory.refuses = True
    with pytest.raises(WriteFailed):
        store.delete_topic("t")
    assert store.topics() == []
    with pytest.raises(WriteFailed):
        store.create_topic("t", 1)
    directory.refuses = False
    store.create_topic("t", 1)
    assert store.log("t", 0).append(batch([b"new"]), now_ms=NOW).base_offset == 0
    store.close()
    assert read_records(Store(directory, StoreConfig(), now_ms=NOW).log("t", 0)) == [(0, b"new")]


def test_a_directory_of_another_topic_is_not_taken_over(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    store.create_topic("u", 1)
    for name in ("t", "u"):
        store.log(name, 0).append(batch([b"x"]), now_ms=NOW)
    store.close()
    home.directory.remove_folder("t-0")
    home.directory.move_folder("u-0", "t-0")
    with pytest.raises(StoreDamaged):
        home.open()


def test_directories_that_are_not_ours_are_left_alone(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    store.close()
    for name in ("backup", "t-7", "t-x", "lost+found"):
        home.directory.folder(name, create=True)
    home.open()
    assert set(home.directory.folders()) == {"backup", "t-7", "t-x", "lost+found"}


@pytest.mark.parametrize("names", [["notes.txt"], ["draft.tmp"], ["photos/"], ["a", "b", "c", "d/"]])
def test_a_folder_that_holds_other_files_is_refused_and_left_as_it_was(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(b"not a store's")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match=r"is not a store, and holds other files .*empty or a new directory"):
        open_store(f"file:{tmp_path}")
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_new_volume_or_a_killed_first_start_leaves_does_not_hinder(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    for name in (".lock", ".gitkeep", "store.json.1.tmp"):
        (tmp_path / name).touch()
    open_store(f"file:{tmp_path}").close()
