"""What a loss of power or a person took: the rest is served, what was cut is kept and told, what is gone is noticed."""

from collections.abc import Callable

import pytest

from penstock.records.batch import batches
from penstock.store import StoreConfig, StoreDamaged
from penstock.store.filesystem import Directory, MemoryDirectory, MemoryFile
from penstock.store.partition_folder import topic_id_of
from penstock.store.store import Store
from tests.unit.store.homes import BIG, NOW, Home, batch, read_records
from tests.unit.store.test_recovery import filled, flip

SEGMENTS = [f"{base:020}.log" for base in (0, 2, 4)]


def values(home: Home, **options: object) -> list[int]:
    log = home.open(**options).log("t", 0)  # type: ignore[arg-type]
    return [int(value) for _, value in read_records(log)]


def asides(home: Home) -> list[str]:
    return [name for name in home.directory.folder("t-0").files() if ".cut-" in name]


@pytest.mark.parametrize("segment", [0, 1, 2])
@pytest.mark.parametrize("cut", [1, 30, 69, 70, 100])
def test_a_torn_end_of_any_segment_is_cut_and_kept_and_what_lies_behind_is_served(
    home: Home, segment: int, cut: int
) -> None:
    filled(home, 6, {"segment.bytes": "150"})
    left = home.crash()
    whole = left.load("t-0", SEGMENTS[segment])
    size = len(whole) // 2
    left.damage("t-0", SEGMENTS[segment], whole[:-cut])
    good = (len(whole) - cut) // size
    lost = [2 * segment + place for place in range(good, 2)]
    store = left.open()
    assert [int(value) for _, value in read_records(store.log("t", 0))] == [x for x in range(6) if x not in lost]
    assert store.log("t", 0).end_offset == (6 if segment < 2 else 4 + good)
    torn = whole[good * size : -cut]
    kept = [left.load("t-0", name) for name in asides(left)]
    assert kept == ([torn] if torn else [])
    told = [str(each) for each in store.recovered]
    if torn or segment < 2:
        (sentence,) = told
        assert "topic t, partition 0" in sentence
        assert SEGMENTS[segment] in sentence
        if segment < 2:
            assert f"offsets {lost[0]} to {lost[-1]} are missing" in sentence
        if torn:
            assert f"byte {good * size}, {len(torn)} bytes" in sentence
            assert f"kept in {left.directory.path}/t-0/{asides(left)[0]}" in sentence
    store.log("t", 0).append(batch([b"9"]), now_ms=NOW)
    store.close()
    assert left.open().recovered == []


def test_what_follows_a_hole_is_kept_to_the_last_byte(home: Home) -> None:
    """A file system writes pages as it likes: whole batches may stand behind one that is not."""
    filled(home, 6, {"segment.bytes": "300"})
    left = home.crash()
    whole = left.load("t-0", SEGMENTS[0])
    left.damage("t-0", SEGMENTS[0], flip(whole, 65))
    store = left.open()
    first = store.recovered[0]
    (name,) = asides(left)
    assert left.load("t-0", name) == flip(whole, 65)
    behind = left.load("t-0", name)[len(whole) // 4 :]
    assert [header.base_offset for header in batches(behind)] == [1, 2, 3]
    assert (first.at_offset, first.next_offset, first.cut_bytes) == (0, 4, len(whole))
    assert [value for _, value in read_records(store.log("t", 0))] == [b"4", b"5"]


def test_zeros_are_not_kept_and_a_second_cut_at_the_same_byte_does_not_replace_the_first(home: Home) -> None:
    filled(home, 2)
    left = home.crash()
    whole = left.load("t-0", SEGMENTS[0])
    left.damage("t-0", SEGMENTS[0], whole + bytes(5_000))
    left.open().abandon()
    assert asides(left) == []
    for torn in (b"first", b"second, and longer"):
        left.damage("t-0", SEGMENTS[0], whole + torn)
        left.open().abandon()
    left.damage("t-0", SEGMENTS[0], whole + b"second, and longer")
    left.open()
    kept = [left.load("t-0", name) for name in asides(left)]
    assert sorted(kept) == [b"first", b"second, and longer"]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("how", ["gone", "shorter by a batch", "empty"])
def test_a_segment_that_is_not_as_it_was_closed_is_noticed(home: Home, which: int, how: str) -> None:
    filled(home, 6, {"segment.bytes": "150"}).close()
    folder = home.directory.folder("t-0")
    whole = home.load("t-0", SEGMENTS[which])
    before = _contents(folder)
    if how == "gone":
        folder.remove(SEGMENTS[which])
    else:
        home.damage("t-0", SEGMENTS[which], whole[: len(whole) // 2] if "batch" in how else b"")
    with pytest.raises(StoreDamaged) as caught:
        home.open()
    assert SEGMENTS[which] in str(caught.value)
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    home.damage("t-0", SEGMENTS[which], whole)
    assert _contents(folder) == before  # nothing was swept that belongs to what can be restored
    assert values(home) == [*range(6)]


@pytest.mark.parametrize("left", [None, b"", b"torn"])
def test_what_was_deleted_nobody_misses_and_its_offsets_are_not_given_out_again(home: Home, left: bytes | None) -> None:
    store = filled(home, 6, {"segment.bytes": "150"})
    store.log("t", 0).delete_records(6)
    store.close()
    if left is None:
        home.directory.folder("t-0").remove(SEGMENTS[2])
    else:
        home.damage("t-0", SEGMENTS[2], left)
    log = home.open().log("t", 0)
    assert (log.start_offset, log.end_offset) == (6, 6)
    assert log.append(batch([b"6"]), now_ms=NOW).base_offset == 6


def test_repair_goes_on_without_a_segment_that_is_gone_and_says_which_offsets(home: Home) -> None:
    filled(home, 6, {"segment.bytes": "150"}).close()
    home.directory.folder("t-0").remove(SEGMENTS[1])
    store = home.open(repair=True)
    (lost,) = store.recovered
    assert "offsets 2 to 3 are missing" in str(lost)
    assert [value for _, value in read_records(store.log("t", 0))] == [b"0", b"1", b"4", b"5"]


def test_a_directory_that_is_gone_is_noticed_and_its_offsets_are_not_given_out_again(home: Home) -> None:
    filled(home, 6).close()
    home.directory.move_folder("t-0", "elsewhere")
    with pytest.raises(StoreDamaged) as caught:
        home.open()
    assert "t-0" in str(caught.value)
    home.directory.move_folder("elsewhere", "t-0")
    store = home.open()
    assert store.log("t", 0).end_offset == 6
    store.close()
    home.directory.remove_folder("t-0")
    store = home.open(repair=True)
    assert "offsets 0 to 5 are missing" in str(store.recovered[0])
    assert store.log("t", 0).append(batch([b"6"]), now_ms=NOW).base_offset == 6
    assert values(home.crash()) == [6]


def test_a_partition_without_records_may_have_no_directory(home: Home) -> None:
    store = filled(home, 1)
    store.create_topic("empty", 3)
    store.close()
    assert home.open().recovered == []


def test_repair_passes_over_the_note_of_a_compaction_that_nobody_can_read(home: Home) -> None:
    filled(home, 6)
    left = home.crash()
    left.damage("t-0", "compaction.json", b"not a note")
    with pytest.raises(StoreDamaged, match="repair"):
        left.open()
    store = left.open(repair=True)
    assert "compaction.json" in str(store.recovered[0])
    assert len(read_records(store.log("t", 0))) == 6
    assert left.load("t-0", "compaction.json.damaged") == b"not a note"


@pytest.mark.parametrize("clean", [True, False])
def test_leftovers_of_small_files_are_swept_everywhere(home: Home, clean: bool) -> None:
    store = filled(home, 3)
    if clean:
        store.close()
    left = home.crash()
    left.directory.replace("store.json.7.tmp", b"{", durable=False)
    left.damage("t-0", "recovery-point.9.tmp", b"1")
    left.open()
    for folder in (left.directory, left.directory.folder("t-0")):
        assert not [name for name in folder.files() if name.endswith(".tmp")]


@pytest.mark.parametrize("text", [None, b""])
def test_metadata_that_the_power_took_is_written_again(home: Home, text: bytes | None) -> None:
    store = filled(home, 3)
    topic = store.topic("t")
    assert topic is not None
    left = home.crash()
    folder = left.directory.folder("t-0")
    if text is None:
        folder.remove("partition.metadata")
    else:
        folder.replace("partition.metadata", text, durable=False)
    assert values(left) == [0, 1, 2]
    assert topic_id_of(folder) == topic.id


class WatchedFile(MemoryFile):
    synced: Callable[[], None]

    def syncer(self) -> Callable[[], None]:
        return self.synced


class Watched(MemoryDirectory):
    """Remembers which files, and whether the directory's names, were forced to the disk since they were written."""

    def __init__(self, path: str = "memory:") -> None:
        super().__init__(path)
        self.unsynced: set[str] = set()

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = Watched(f"{self.path}/{name}")
        return super().folder(name)

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        super().replace(name, data, durable=durable)
        if not durable:
            self.unsynced.add(name)

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        watched = WatchedFile()
        watched._data = super().open(name, create=create)._data
        watched.synced = lambda: self.unsynced.discard(name)
        return watched


def test_small_files_are_synced_with_the_log() -> None:
    directory = Watched()
    with Store(directory, StoreConfig(), now_ms=NOW) as store:
        store.create_topic("t", 1, {"segment.bytes": "150"})
        for _ in range(5):
            store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
        folder = directory.folder("t-0")
        assert isinstance(folder, Watched)
        assert {"partition.metadata", "leader-epoch-checkpoint"} <= folder.unsynced
        store.flush()
        assert folder.unsynced <= {"recovery-point"}  # an older one only makes the next start look at more


def test_no_gap_is_told_of_a_log_whose_compaction_left_it(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": "400"})
    log = store.log("t", 0)
    for number in range(60):
        log.append(batch([b"%d" % number], keys=[b"%d" % (number % 3)]), now_ms=NOW)
    store.flush()
    for compaction in store.prepare_compaction(NOW):
        compaction.run()
        compaction.finish()
    left = home.crash()
    left.directory.folder("t-0").remove("recovery-point")
    assert left.open().recovered == []
    assert len(log.read(0, BIG).data) < 60 * 70


def _contents(folder: Directory) -> dict[str, bytes | None]:
    return {name: folder.load(name) for name in folder.files()}
