"""After a crash: nothing good is lost, nothing torn is served, what was cut is said, and damage is not papered over."""

import json
import struct

import pytest

from penstock.errors import OutOfOrderSequence, StoreError
from penstock.records.batch import Producing, end_marker
from penstock.records.scalar_writer import FewRows, encode_few
from penstock.store import Store, StoreDamaged
from penstock.store.partition_folder import with_checksum
from tests.unit.store.homes import BIG, NOW, Home, batch, read_records

LAST = "00000000000000000000.log"


def filled(home: Home, count: int = 5, config: dict[str, str] | None = None, **options: object) -> Store:
    """A store whose log has ``count`` batches of one record."""
    store = home.open(**options)
    store.create_topic("t", 1, config or {})
    for value in range(count):
        store.log("t", 0).append(batch([b"%d" % value]), now_ms=NOW)
    return store


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]


def test_nothing_is_lost_without_a_shutdown(home: Home) -> None:
    filled(home, 100, {"segment.bytes": "1000"}, index_interval_bytes=100)
    store = home.crash().open()
    assert store.recovered == []
    assert read_records(store.log("t", 0)) == [(value, b"%d" % value) for value in range(100)]
    store.log("t", 0).append(batch([b"100"]), now_ms=NOW)
    assert read_records(store.log("t", 0), 99) == [(99, b"99"), (100, b"100")]


def test_a_tail_torn_at_any_byte_is_cut_at_the_last_good_batch(home: Home) -> None:
    filled(home)
    whole = home.load("t-0", LAST)
    size = len(batch([b"0"]))
    for left in range(len(whole) - size + 1, len(whole)):
        torn = home.crash()
        torn.damage("t-0", LAST, whole[:left])
        store = torn.open()
        (cut,) = store.recovered
        assert (cut.topic, cut.partition, cut.at_offset, cut.cut_bytes) == ("t", 0, 4, left - (len(whole) - size))
        assert read_records(store.log("t", 0)) == [(value, b"%d" % value) for value in range(4)]
        assert store.log("t", 0).append(batch([b"new"]), now_ms=NOW).base_offset == 4
        assert read_records(store.log("t", 0), 4) == [(4, b"new")]
        store.close()


def test_a_tail_of_zeros_or_of_a_flipped_bit_is_cut(home: Home) -> None:
    filled(home)
    whole = home.load("t-0", LAST)
    for damaged in (whole + bytes(4_096), flip(whole, len(whole) - 2), flip(whole, len(whole) - 30)):
        left = home.crash()
        left.damage("t-0", LAST, damaged)
        store = left.open()
        assert store.recovered
        assert store.log("t", 0).end_offset == (5 if len(damaged) > len(whole) else 4)
        assert len(left.load("t-0", LAST)) == store.log("t", 0).size


def test_a_cut_is_done_once(home: Home) -> None:
    filled(home)
    left = home.crash()
    left.damage("t-0", LAST, home.load("t-0", LAST)[:-1])
    assert left.open().recovered
    assert left.crash().open().recovered == []


def test_damage_in_a_synced_segment_stops_the_start_and_names_the_byte(home: Home) -> None:
    filled(home, 6, {"segment.bytes": "150"}).flush()
    first = home.load("t-0", LAST)
    size = len(first) // 2
    for position in (8, 16, size + 8, size + 16):
        left = home.crash()
        left.damage("t-0", LAST, flip(first, position))
        with pytest.raises(StoreDamaged) as caught:
            left.open()
        assert caught.value.file.endswith(f"t-0/{LAST}")
        assert caught.value.position == position // size * size
        assert (caught.value.topic, caught.value.partition) == ("t", 0)
        assert "repair" in str(caught.value)
        assert left.open(repair=True).recovered


def test_repair_gives_up_the_rest_of_a_damaged_segment_and_nothing_behind_it(home: Home) -> None:
    filled(home, 6, {"segment.bytes": "150"})
    first = home.load("t-0", LAST)
    left = home.crash()
    left.damage("t-0", LAST, flip(first, len(first) - 1))
    store = left.open(repair=True)
    (cut,) = store.recovered
    assert (cut.at_offset, cut.cut_bytes) == (1, len(first) // 2)
    assert read_records(store.log("t", 0)) == [(value, b"%d" % value) for value in (0, 2, 3, 4, 5)]
    store.close()
    assert [offset for offset, _ in read_records(left.open().log("t", 0))] == [0, 2, 3, 4, 5]


def test_repair_of_a_segment_that_is_all_damage(home: Home) -> None:
    filled(home, 6, {"segment.bytes": "150"})
    left = home.crash()
    left.damage("t-0", LAST, b"\xff" * 100)
    log = left.open(repair=True).log("t", 0)
    assert (log.start_offset, log.end_offset) == (2, 6)
    assert [offset for offset, _ in read_records(log)] == [2, 3, 4, 5]


def test_damage_below_the_recovery_point_is_not_a_torn_tail(home: Home) -> None:
    store = filled(home, 3)
    store.close()
    home.open().log("t", 0).append(batch([b"3"]), now_ms=NOW)
    whole = home.load("t-0", LAST)
    left = home.crash()
    left.damage("t-0", LAST, flip(whole, 60))
    with pytest.raises(StoreDamaged):
        left.open()
    assert left.open(repair=True).log("t", 0).end_offset == 0


@pytest.mark.parametrize("field", [0, 12], ids=["base offset", "leader epoch"])
@pytest.mark.parametrize("synced", [False, True])
def test_fields_outside_the_checksum_are_looked_at_too(home: Home, field: int, synced: bool) -> None:
    """A page torn inside a batch's head spoils them; below the recovery point nothing explains it."""
    store = filled(home)
    if synced:
        store.close()
        home.open().log("t", 0).append(batch([b"5"]), now_ms=NOW)
    left = home.crash()
    whole = left.load("t-0", LAST)
    fourth = 4 * len(batch([b"0"]))
    left.damage("t-0", LAST, flip(whole, fourth + field))
    if synced:
        with pytest.raises(StoreDamaged, match="--repair"):
            left.open()
        assert left.load("t-0", LAST) == flip(whole, fourth + field)
    store = left.open(repair=synced)
    (cut,) = store.recovered
    assert (cut.at_offset, cut.cut_bytes) == (4, len(whole) - fourth)
    assert cut.aside is not None
    assert read_records(store.log("t", 0)) == [(value, b"%d" % value) for value in range(4)]


def test_a_base_offset_of_zeros_behind_a_good_batch_is_cut(home: Home) -> None:
    """The page with the first 8 bytes of a batch was not written, the next page was."""
    filled(home, 2)
    whole = home.load("t-0", LAST)
    second = len(whole) // 2
    left = home.crash()
    left.damage("t-0", LAST, whole[:second] + bytes(8) + whole[second + 8 :])
    store = left.open()
    assert "the log continues at offset 1" in str(store.recovered[0])
    assert read_records(store.log("t", 0)) == [(0, b"0")]


def test_bytes_behind_the_last_offset_before_the_next_segment_are_cut(home: Home) -> None:
    """What an older cut left off came back, because it was never synced; the segment lies below the recovery point."""
    store = filled(home, 4, {"segment.bytes": "150"})
    store.flush()
    left = home.crash()
    whole = left.load("t-0", LAST)
    for tail in (whole[len(whole) // 2 :], b"torn", bytes(50)):
        left.damage("t-0", LAST, whole + tail)
        store = left.open()
        assert "no offset is missing" in str(store.recovered[0])
        assert [offset for offset, _ in read_records(store.log("t", 0))] == [0, 1, 2, 3]
        assert left.load("t-0", LAST) == whole
        store.abandon()


def test_what_a_lost_marker_ended_is_open_again_at_every_later_start(home: Home) -> None:
    """A segment's end is torn off, behind which a snapshot still knows of the marker that was there."""
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    log.append(transactional(b"x"), now_ms=NOW)
    log.append(end_marker(7, 0, commit=True, coordinator_epoch=0, now_ms=NOW), now_ms=NOW)
    log.roll()
    log.append(batch([b"later"]), now_ms=NOW)
    left = home.crash()
    left.damage("t-0", LAST, left.load("t-0", LAST)[:-1])
    store = left.open()
    assert store.log("t", 0).stable_offset == 0
    store.flush()
    assert left.crash().open().log("t", 0).stable_offset == 0


def transactional(value: bytes) -> bytes:
    return bytes(encode_few(FewRows([None], [value], [NOW]), producing=Producing(7, 0, 0, transactional=True)))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["gone", "torn", "short", "shuffled", "wrong"])
def test_a_damaged_index_is_made_anew(home: Home, suffix: str, clean: bool, how: str) -> None:
    store = filled(home, 60, {"segment.bytes": "2000"}, index_interval_bytes=100)
    log = store.log("t", 0)
    for value in range(60, 70):
        log.append(batch([b"%d" % value], times=[NOW + value]), now_ms=NOW)
    if clean:
        store.close()
    else:
        store.flush()
    left = home.crash()
    for name in left.names("t-0", suffix):
        data = left.load("t-0", name)
        entry = 8 if suffix == ".index" else 12
        damaged = {
            "gone": None,
            "torn": data[:-3],
            "short": data[: len(data) // 2 // entry * entry],
            "shuffled": data[len(data) // 2 // entry * entry :] + data[: len(data) // 2 // entry * entry],
            "wrong": b"".join(struct.pack(">ii", at, at + 1) for at in range(0, 80, 2))
            if suffix == ".index"
            else b"".join(struct.pack(">qi", at, at + 1) for at in range(0, 80, 2)),
        }[how]
        if damaged is None:
            left.directory.folder("t-0").remove(name)
        else:
            left.damage("t-0", name, damaged)
    store = left.open(index_interval_bytes=100)
    assert store.recovered == []
    log = store.log("t", 0)
    for start in range(0, 70, 5):
        assert read_records(log, start, 200) == [(value, b"%d" % value) for value in range(start, 70)]
    assert log.append(batch([b"70"], times=[NOW + 70]), now_ms=NOW).base_offset == 70
    if suffix == ".index" or not clean:
        assert log.offset_for_time(NOW + 65) == (65, NOW + 65)


def test_a_clean_shutdown_spares_looking(home: Home) -> None:
    filled(home).close()
    whole = home.load("t-0", LAST)
    home.damage("t-0", LAST, flip(whole, 70))
    store = home.open()
    assert store.recovered == []
    assert store.log("t", 0).read(0, BIG).data == flip(whole, 70)


def test_a_file_that_changed_since_the_clean_shutdown_is_looked_at(home: Home) -> None:
    store = filled(home)
    store.close()
    home.damage("t-0", LAST, home.load("t-0", LAST)[:-1])
    with pytest.raises(StoreDamaged):
        home.open()
    (cut,) = home.open(repair=True).recovered
    assert cut.at_offset == 4


def test_the_note_of_a_shutdown_is_believed_only_once(home: Home) -> None:
    filled(home).close()
    home.open().log("t", 0).append(batch([b"5"]), now_ms=NOW)
    left = home.crash()
    whole = left.load("t-0", LAST)
    left.damage("t-0", LAST, whole[: -len(batch([b"5"]))])
    assert left.open().log("t", 0).end_offset == 5


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"epoch": 1}', b'{"epoch": 1, "logs": {"t-0": {}}}', b"\xff"])
@pytest.mark.parametrize("sum_fits", [True, False])
def test_a_damaged_note_means_looking(home: Home, note: bytes, sum_fits: bool) -> None:
    filled(home).close()
    home.directory.replace("clean-shutdown.json", with_checksum(note) if sum_fits else note, durable=False)
    assert home.open().log("t", 0).end_offset == 5


def test_a_digit_changed_in_a_note_is_not_believed(home: Home) -> None:
    filled(home).close()
    note = home.directory.load("clean-shutdown.json") or b""
    home.directory.replace("clean-shutdown.json", note.replace(b",5,", b",7,"), durable=False)
    assert home.open().log("t", 0).end_offset == 5


def test_a_damaged_start_offset_does_not_cost_the_log(home: Home) -> None:
    store = filled(home)
    store.log("t", 0).delete_records(2)
    left = home.crash()
    left.damage("t-0", "log-start-offset", left.load("t-0", "log-start-offset") + b"0")
    with pytest.raises(StoreDamaged) as caught:
        left.open()
    assert caught.value.file.endswith("log-start-offset")
    left.directory.folder("t-0").remove("log-start-offset")
    assert read_records(left.open().log("t", 0))[0][0] == 0


def test_a_damaged_note_of_a_compaction_stops_the_start(home: Home) -> None:
    filled(home)
    left = home.crash()
    left.damage("t-0", "compaction.json", b'{"old": [0], "new": []}')
    with pytest.raises(StoreDamaged) as caught:
        left.open()
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert LAST in left.directory.folder("t-0").files()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("segment_bytes", ["300", "100000"])
def test_producers_are_known_after_a_restart(home: Home, clean: bool, segment_bytes: str) -> None:
    store = home.open()
    store.create_topic("t", 1, {"segment.bytes": segment_bytes})
    for first in range(0, 20, 2):
        store.log("t", 0).append(batch([b"a", b"b"], producer=(9, 0, first)), now_ms=NOW)
    if clean:
        store.close()
    left = home if clean else home.crash()
    log = left.open().log("t", 0)
    again = log.append(batch([b"a", b"b"], producer=(9, 0, 16)), now_ms=NOW)
    assert (again.duplicate, again.base_offset, again.last_offset, again.append_time_ms) == (True, 16, 17, NOW)
    with pytest.raises(OutOfOrderSequence) as caught:
        log.append(batch([b"a"], producer=(9, 0, 22)), now_ms=NOW)
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert log.append(batch([b"a"], producer=(9, 0, 20)), now_ms=NOW).base_offset == 20


def test_producers_are_read_from_the_log_if_their_snapshot_is_gone(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"segment.bytes": "300"})
    for first in range(20):
        store.log("t", 0).append(batch([b"a"], producer=(9, 0, first)), now_ms=NOW)
    store.flush()
    left = home.crash()
    for name in left.names("t-0", ".producers"):
        left.damage("t-0", name, b"{")
    log = left.open().log("t", 0)
    for first in range(15, 20):
        assert log.append(batch([b"a"], producer=(9, 0, first)), now_ms=NOW).base_offset == first
    with pytest.raises(OutOfOrderSequence):
        log.append(batch([b"a"], producer=(9, 0, 14)), now_ms=NOW)


@pytest.mark.parametrize("clean", [True, False])
def test_each_start_is_a_new_leader_epoch_and_old_ones_are_remembered(home: Home, clean: bool) -> None:
    store = filled(home, 3)
    ends = {}
    for _ in range(3):
        log = store.log("t", 0)
        log.append(batch([b"x"]), now_ms=NOW)
        ends[log.leader_epoch] = log.end_offset
        if clean:
            store.close()
        else:
            home = home.crash()
        store = home.open()
    log = store.log("t", 0)
    for epoch, end in ends.items():
        assert log.epoch_end(epoch) == (epoch, end)
    assert log.epoch_end(log.leader_epoch) == (log.leader_epoch, log.end_offset)
    assert log.epoch_end(log.leader_epoch + 1) == (-1, -1)


def test_a_log_whose_start_was_cut_away_goes_on_behind_it(home: Home) -> None:
    store = filled(home)
    store.log("t", 0).delete_records(4)
    left = home.crash()
    left.damage("t-0", LAST, b"")
    log = left.open().log("t", 0)
    assert (log.start_offset, log.end_offset) == (4, 4)
    assert log.append(batch([b"new"]), now_ms=NOW).base_offset == 4
    assert read_records(left.crash().open().log("t", 0)) == [(4, b"new")]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"version": 2}', b'{"version": 1, "topics": {}}'])
def test_a_damaged_catalog_stops_the_start_and_deletes_nothing(home: Home, text: bytes) -> None:
    filled(home).close()
    whole = home.directory.load("store.json")
    assert whole is not None
    home.directory.replace("store.json", text, durable=False)
    with pytest.raises(StoreDamaged) as caught:
        home.open()
    assert caught.value.file.endswith("store.json")
    home.directory.replace("store.json", whole, durable=False)
    assert home.open().log("t", 0).end_offset == 5


def test_a_missing_catalog_beside_logs_is_not_a_new_store(home: Home) -> None:
    filled(home).close()
    home.directory.remove("store.json")
    with pytest.raises(StoreError):
        home.open()


def test_the_catalog_of_an_older_backup_does_not_cost_the_log(home: Home) -> None:
    store = filled(home)
    old = home.directory.load("store.json")
    assert old is not None
    store.close()
    home.open().log("t", 0).append(batch([b"later"]), now_ms=NOW)
    left = home.crash()
    left.directory.replace("store.json", json.dumps(json.loads(old) | {"epoch": 0}).encode(), durable=False)
    whole = left.load("t-0", LAST)
    with pytest.raises(StoreDamaged):
        left.open()
    assert left.load("t-0", LAST) == whole


def test_leftovers_of_interrupted_work_are_swept(home: Home) -> None:
    filled(home, 6, {"segment.bytes": "150"})
    left = home.crash()
    for name in ("x.7.tmp", f"{99:020}.index", f"{99:020}.timeindex", f"{99:020}.producers"):
        left.damage("t-0", name, b"12345678")
    left.damage("t-0", "notes.txt", b"not ours")
    assert left.open().log("t", 0).end_offset == 6
    files = left.directory.folder("t-0").files()
    assert "notes.txt" in files
    assert not [name for name in files if name.endswith(".tmp") or name.startswith(f"{99:020}")]
