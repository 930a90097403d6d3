"""Lookups by time are exact: the first record at or after a time, whatever batches, codecs and segments it is in."""

import random

import pytest

from penstock.model import Codec
from penstock.records.batch import end_marker
from penstock.store import StoreDamaged
from tests.unit.store.homes import NOW, Home, batch


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("order", ["rising", "mixed", "equal", "falling"])
@pytest.mark.parametrize("clean", [True, False])
def test_the_first_record_of_a_time_is_found(home: Home, codec: Codec, order: str, clean: bool) -> None:
    dice = random.Random(order)
    times = [
        NOW + {"rising": 3 * n, "mixed": dice.randrange(300), "equal": 5, "falling": 300 - n}[order] for n in range(120)
    ]
    store = home.open(index_interval_bytes=150)
    store.create_topic("t", 1, {"segment.bytes": "1000"})
    log = store.log("t", 0)
    for first in range(0, 120, 4):
        log.append(batch([b"v"] * 4, times=times[first : first + 4], codec=codec), now_ms=NOW)
    log.delete_records(6)
    if clean:
        store.close()
    left = home if clean else home.crash()
    log = left.open(index_interval_bytes=150).log("t", 0)
    there = list(enumerate(times))[6:]
    for wanted in range(NOW - 2, NOW + 365, 5):
        expected = next(((offset, time) for offset, time in there if time >= wanted), None)
        assert log.offset_for_time(wanted) == expected, wanted - NOW
    assert log.max_timestamp() == max(there, key=lambda row: (row[1], -row[0]))


def test_the_newest_record_may_lie_behind_deleted_ones(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    log.append(batch([b"v"] * 3, times=[NOW + 9, NOW + 2, NOW + 3]), now_ms=NOW)
    log.append(batch([b"v"] * 2, times=[NOW + 1, NOW + 3]), now_ms=NOW)
    assert log.max_timestamp() == (0, NOW + 9)
    log.delete_records(1)
    assert log.max_timestamp() == (2, NOW + 3)
    log.delete_records(3)
    assert log.max_timestamp() == (4, NOW + 3)
    assert log.offset_for_time(NOW + 2) == (4, NOW + 3)
    log.delete_records(5)
    assert (log.max_timestamp(), log.offset_for_time(0)) == (None, None)


def test_an_empty_log_has_no_times(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    assert store.log("t", 0).max_timestamp() is None
    assert store.log("t", 0).offset_for_time(0) is None


def test_a_marker_is_found_by_its_time_like_a_record(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    log.append(batch([b"v"] * 2, times=[NOW + 1, NOW + 2]), now_ms=NOW)
    log.append(end_marker(7, 0, commit=True, coordinator_epoch=0, now_ms=NOW + 5), now_ms=NOW)
    log.append(batch([b"v"], times=[NOW + 5]), now_ms=NOW)
    assert log.max_timestamp() == (2, NOW + 5)
    assert log.offset_for_time(NOW + 3) == (2, NOW + 5)
    log.delete_records(2)
    assert (log.max_timestamp(), log.offset_for_time(0)) == ((2, NOW + 5), (2, NOW + 5))
    log.delete_records(3)
    assert (log.max_timestamp(), log.offset_for_time(0)) == ((3, NOW + 5), (3, NOW + 5))


def test_records_without_times_come_before_all_others(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    log = store.log("t", 0)
    log.append(batch([b"v"] * 2, times=[-1, -1]), now_ms=NOW)
    assert (log.max_timestamp(), log.offset_for_time(0)) == ((0, -1), None)
    log.append(batch([b"v"] * 3, times=[-1, NOW, -1]), now_ms=NOW)
    assert (log.max_timestamp(), log.offset_for_time(0)) == ((3, NOW), (3, NOW))
    log.delete_records(4)
    assert (log.max_timestamp(), log.offset_for_time(0)) == ((4, -1), None)


def test_the_logs_own_time_is_that_of_all_records_of_a_batch(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"message.timestamp.type": "LogAppendTime"})
    log = store.log("t", 0)
    log.append(batch([b"v"] * 3, times=[1, 2, 3]), now_ms=NOW)
    log.append(batch([b"v"] * 3, times=[1, 2, 3]), now_ms=NOW + 5)
    assert log.offset_for_time(3) == (0, NOW)
    assert log.offset_for_time(NOW + 1) == (3, NOW + 5)
    assert log.max_timestamp() == (3, NOW + 5)


def test_a_batch_that_is_damaged_on_the_disk_is_the_disks_fault(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    store.log("t", 0).append(batch([b"value"]), now_ms=NOW)
    store.close()
    name = "00000000000000000000.log"
    whole = home.load("t-0", name)
    home.damage("t-0", name, whole[:-2] + b"\xff\xff")
    with pytest.raises(StoreDamaged) as caught:
        home.open().log("t", 0).offset_for_time(0)
    assert (caught.value.topic, caught.value.position) == ("t", 0)
