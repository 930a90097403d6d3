"""Deletion: by request, by age and by size; never the segment that is written to, and it stays deleted."""

import pytest

from penstock.errors import LogOffsetOutOfRange
from penstock.store import PartitionLog, Store
from tests.unit.store.homes import BIG, NOW, Home, batch, read_records

SIZE = len(batch([b"0"]))


def filled(home: Home, config: dict[str, str], **options: object) -> tuple[Store, PartitionLog]:
    """Ten batches of one record, each in a segment of its own, a second apart."""
    store = home.open(**options)
    store.create_topic("t", 1, {"segment.bytes": str(SIZE), **config})
    for value in range(10):
        store.log("t", 0).append(batch([b"%d" % value], times=[NOW + 1_000 * value]), now_ms=NOW)
    return store, store.log("t", 0)


def test_segments_go_when_their_newest_record_is_too_old(home: Home) -> None:
    store, log = filled(home, {"retention.ms": "5000"})
    assert store.enforce_retention(NOW + 5_000) == []
    (trimmed,) = store.enforce_retention(NOW + 7_999)
    assert (trimmed.topic, trimmed.partition, trimmed.segments, trimmed.bytes) == ("t", 0, 3, 3 * SIZE)
    assert trimmed.start_offset == log.start_offset == 3
    assert [offset for offset, _ in read_records(log)] == list(range(3, 10))
    with pytest.raises(LogOffsetOutOfRange):
        log.read(2, BIG)
    for left in (home.crash(), home):
        store.close()
        assert left.open().log("t", 0).start_offset == 3


def test_the_segment_that_is_written_to_stays(home: Home) -> None:
    store, log = filled(home, {"retention.ms": "0", "retention.bytes": "0"})
    store.enforce_retention(NOW + 10**12)
    assert (log.start_offset, log.end_offset, log.segments) == (9, 10, 1)
    log.append(batch([b"x"]), now_ms=NOW)
    assert [offset for offset, _ in read_records(log)] == [9, 10]


def test_the_oldest_go_when_the_log_is_too_large(home: Home) -> None:
    store, log = filled(home, {"retention.bytes": str(4 * SIZE), "retention.ms": "-1"})
    store.enforce_retention(NOW + 10**12)
    assert (log.start_offset, log.size) == (6, 4 * SIZE)
    log.append(batch([b"x"]), now_ms=NOW)
    store.enforce_retention(NOW)
    assert (log.start_offset, log.size) == (7, 4 * SIZE)


def test_without_limits_everything_stays(home: Home) -> None:
    store, log = filled(home, {"retention.ms": "-1"})
    assert store.enforce_retention(NOW + 10**13) == []
    assert log.start_offset == 0


def test_the_default_is_a_week_and_can_be_changed(home: Home) -> None:
    store, log = filled(home, {})
    store.enforce_retention(NOW + 7 * 86_400_000)
    assert log.start_offset == 0
    store.enforce_retention(NOW + 7 * 86_400_000 + 1)
    assert log.start_offset == 1
    store.close()
    store = home.open(retention_ms=1)
    store.enforce_retention(NOW + 8_002)
    assert store.log("t", 0).start_offset == 9


def test_an_old_record_behind_a_young_one_waits_for_it(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"segment.bytes": str(SIZE), "retention.ms": "1000"})
    for time in (NOW, NOW + 9_000, NOW, NOW):
        store.log("t", 0).append(batch([b"x"], times=[time]), now_ms=NOW)
    store.enforce_retention(NOW + 5_000)
    assert store.log("t", 0).start_offset == 1


def test_records_without_timestamps_age_with_their_file(disk: Home) -> None:
    store = disk.open()
    store.create_topic("t", 1, {"segment.bytes": str(SIZE), "retention.ms": "1000"})
    for _ in range(3):
        store.log("t", 0).append(batch([b"x"], times=[-1]), now_ms=NOW)
    written = disk.directory.folder("t-0").modified_ms(f"{2:020}.log")
    store.enforce_retention(written + 500)
    assert store.log("t", 0).start_offset == 0
    store.enforce_retention(written + 1_500)
    assert store.log("t", 0).start_offset == 2


def test_deleted_records_cannot_be_read_and_do_not_come_back(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    for first in range(0, 12, 3):
        log.append(batch([b"%d" % value for value in range(first, first + 3)]), now_ms=NOW)
    assert log.delete_records(7) == 7
    assert log.delete_records(5) == 7
    with pytest.raises(LogOffsetOutOfRange):
        log.read(6, BIG)
    with pytest.raises(LogOffsetOutOfRange):
        log.delete_records(13)
    assert read_records(log) == [(value, b"%d" % value) for value in range(7, 12)]
    crashed = home.crash()
    store.close()
    for left in (crashed, home):
        log = left.open().log("t", 0)
        assert (log.start_offset, log.end_offset) == (7, 12)
        assert log.append(batch([b"12"]), now_ms=NOW).log_start_offset == 7


def test_everything_can_be_deleted_and_offsets_go_on(home: Home) -> None:
    store, log = filled(home, {})
    assert log.delete_records(10) == 10
    assert (log.segments, log.read(10, BIG).data) == (1, b"")
    log.roll()
    store.set_config("t", {"retention.ms": "0"})
    store.enforce_retention(NOW + 10**12)
    assert log.size == 0
    crashed = home.crash()
    store.close()
    for left in (crashed, home):
        log = left.open().log("t", 0)
        assert (log.start_offset, log.end_offset) == (10, 10)
        assert log.append(batch([b"x"]), now_ms=NOW).base_offset == 10


def test_segments_deleted_by_request_free_their_files(home: Home) -> None:
    _, log = filled(home, {})
    log.delete_records(4)
    names = home.names("t-0", ".log")
    assert names == [f"{base:020}.log" for base in range(4, 10)]
    assert not [name for name in home.names("t-0", "") if name.startswith(f"{3:020}")]


def test_quiet_producers_are_forgotten(home: Home) -> None:
    store = home.open(producer_expiration_ms=1_000)
    store.create_topic("t", 1)
    log = store.log("t", 0)
    log.append(batch([b"x"], producer=(1, 0, 0)), now_ms=NOW)
    store.enforce_retention(NOW + 1_000)
    assert log.append(batch([b"x"], producer=(1, 0, 0)), now_ms=NOW).duplicate
    store.enforce_retention(NOW + 1_001)
    assert not log.append(batch([b"x"], producer=(1, 0, 77)), now_ms=NOW).duplicate


def test_a_log_that_is_rewritten_again_and_again_does_not_grow(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    value = bytes(200_000)
    for round_ in range(10):
        kept_from = log.end_offset
        for _ in range(6):
            log.append(batch([value]), now_ms=NOW)
        log.delete_records(kept_from)
        assert log.size < 5_000_000
        assert [offset for offset, _ in read_records(log)] == list(range(6 * round_, 6 * round_ + 6))
    store.close()
    assert home.open().log("t", 0).start_offset == 54
