"""What was appended can be read: the same bytes, whole batches, from the right offset on, and nothing else."""

import os
import struct

import pytest

from penstock.errors import (
    BatchTooLarge,
    Closed,
    CorruptBatch,
    FencedLeaderEpoch,
    LogOffsetOutOfRange,
    UnknownPartition,
    UnknownTopic,
)
from penstock.model import Codec, TimestampType
from penstock.records.batch import batches, parse_header, verify_crc
from penstock.store import PartitionLog, StoreDamaged
from penstock.store.log import Stretch
from tests.unit.store.homes import BIG, NOW, Home, batch, read_records


def one_log(home: Home, config: dict[str, str] | None = None, **options: object) -> PartitionLog:
    store = home.open(**options)
    store.create_topic("t", 1, config or {})
    return store.log("t", 0)


def test_a_batch_is_kept_byte_for_byte_but_for_offset_and_epoch(home: Home) -> None:
    log = one_log(home)
    log.append(batch([b"a"]), now_ms=NOW)
    sent = batch([b"b", b"c"], codec=Codec.ZSTD)
    appended = log.append(sent, now_ms=NOW)
    assert appended == (1, 2, -1, 0, False)
    kept = bytes(log.read(1, BIG).data)
    assert kept == struct.pack(">q", 1) + sent[8:12] + struct.pack(">i", log.leader_epoch) + sent[16:]
    verify_crc(kept, parse_header(kept))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_appended_and_is_not_changed(home: Home, kind: type) -> None:
    sent = batch([b"a"])
    given = kind(bytearray(sent))
    log = one_log(home, {"message.timestamp.type": "LogAppendTime"})
    log.append(given, now_ms=NOW)
    assert bytes(given) == sent


def test_reading_starts_with_the_batch_that_holds_the_offset(home: Home) -> None:
    log = one_log(home)
    for first in range(0, 50, 5):
        log.append(batch([b"%d" % value for value in range(first, first + 5)]), now_ms=NOW)
    for offset in range(50):
        piece = log.read(offset, BIG)
        assert parse_header(piece.data).base_offset == offset // 5 * 5
        assert piece.next_offset == 50
    assert read_records(log, 17) == [(value, b"%d" % value) for value in range(17, 50)]


def test_who_reads_what_was_just_appended_costs_no_look_into_the_file(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = one_log(home)
    for each in range(100):
        log.append(batch([b"%d" % each, b"too"]), now_ms=NOW)

    def walk(*_: object) -> None:
        raise AssertionError("it walked")

    monkeypatch.setattr("penstock.store.segment.walk", walk)
    assert log.read(198, BIG).next_offset == log.read(199, BIG).next_offset == 200
    assert len(log.read(199, BIG).data) == len(batch([b"99", b"too"]))
    with pytest.raises(AssertionError, match="it walked"):
        log.read(197, BIG)


@pytest.mark.parametrize("index_interval_bytes", [0, 100, 4_096])
def test_reading_gives_as_many_whole_batches_as_fit(home: Home, index_interval_bytes: int) -> None:
    log = one_log(home, index_interval_bytes=index_interval_bytes)
    sizes = [len(sent) for sent in (batch([bytes(size)]) for size in range(1, 120))]
    for size in range(1, 120):
        log.append(batch([bytes(size)]), now_ms=NOW)
    for start in range(0, 119, 7):
        for max_bytes in range(1, 1_500, 31):
            piece = log.read(start, max_bytes)
            count = piece.next_offset - start
            assert len(piece.data) == sum(sizes[start : start + count])
            assert count == 1 or len(piece.data) <= max_bytes
            assert start + count == 119 or len(piece.data) + sizes[start + count] > max_bytes


def test_a_batch_larger_than_asked_for_comes_alone_or_not_at_all(home: Home) -> None:
    log = one_log(home)
    log.append(batch([bytes(5_000)]), now_ms=NOW)
    log.append(batch([b"next"]), now_ms=NOW)
    alone = log.read(0, 100)
    assert (len(alone.data) > 5_000, alone.next_offset) == (True, 1)
    assert log.read(0, 0).next_offset == 1
    nothing = log.read(0, 100, at_least_one=False)
    assert (bytes(nothing.data), nothing.next_offset) == (b"", 0)
    assert log.read(0, len(alone.data), at_least_one=False).next_offset == 1


def test_reading_at_the_end_is_empty_and_beyond_it_an_error(home: Home) -> None:
    log = one_log(home)
    assert log.read(0, BIG) == (b"", 0)
    log.append(batch([b"a", b"b"]), now_ms=NOW)
    assert log.read(2, BIG) == (b"", 2)
    for offset in (3, -1):
        with pytest.raises(LogOffsetOutOfRange) as caught:
            log.read(offset, BIG)
        assert (caught.value.start_offset, caught.value.end_offset, caught.value.offset) == (0, 2, offset)
        assert (caught.value.topic, caught.value.partition) == ("t", 0)


def test_reading_goes_on_through_many_segments(home: Home) -> None:
    log = one_log(home, {"segment.bytes": "500"}, index_interval_bytes=50)
    for value in range(200):
        log.append(batch([b"%d" % value]), now_ms=NOW)
    assert log.segments > 20
    assert log.size == 200 * len(batch([b"0"])) + 190 + 100
    for start in (0, 1, 77, 199):
        assert read_records(log, start) == [(value, b"%d" % value) for value in range(start, 200)]


def test_segments_are_named_by_their_first_offset(home: Home) -> None:
    log = one_log(home, {"segment.bytes": "100"})
    for value in range(6):
        log.append(batch([b"%d" % value] * 2), now_ms=NOW)
    assert home.names("t-0", ".log") == [f"{base:020}.log" for base in range(0, 12, 2)]


def test_a_segment_is_closed_when_it_is_old(home: Home) -> None:
    log = one_log(home, {"segment.ms": "1000"})
    for now_ms in (NOW, NOW + 999, NOW + 1_000, NOW + 1_500, NOW + 2_000):
        log.append(batch([b"x"]), now_ms=now_ms)
    assert home.names("t-0", ".log") == [f"{base:020}.log" for base in (0, 2, 4)]


@pytest.mark.parametrize(
    "broken",
    [
        lambda sent: sent[:-1],
        lambda sent: sent[:40],
        lambda sent: b"",
        lambda sent: sent + sent,
        lambda sent: sent + b"\0",
        lambda sent: sent[:70] + bytes([sent[70] ^ 1]) + sent[71:],
        lambda sent: sent[:16] + b"\1" + sent[17:],
    ],
    ids=["torn", "torn header", "nothing", "two batches", "a byte more", "bit flipped", "magic 1"],
)
def test_what_is_not_one_whole_batch_is_refused_and_leaves_no_trace(home: Home, broken: object) -> None:
    log = one_log(home)
    log.append(batch([b"before"]), now_ms=NOW)
    with pytest.raises(CorruptBatch) as caught:
        log.append(broken(batch([b"a value", b"another"])), now_ms=NOW)  # type: ignore[operator]
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    log.append(batch([b"after"]), now_ms=NOW)
    assert read_records(log) == [(0, b"before"), (1, b"after")]


def test_log_append_time_is_stamped_with_a_new_checksum(home: Home) -> None:
    log = one_log(home, {"message.timestamp.type": "LogAppendTime"})
    appended = log.append(batch([b"a", b"b"], times=[5, 6]), now_ms=NOW + 7)
    assert appended.append_time_ms == NOW + 7
    header = next(batches(log.read(0, BIG).data))
    verify_crc(log.read(0, BIG).data, header)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND, NOW + 7)


def test_a_batch_larger_than_a_segment_is_refused(home: Home) -> None:
    log = one_log(home, {"segment.bytes": "300"})
    with pytest.raises(BatchTooLarge):
        log.append(batch([bytes(300)]), now_ms=NOW)
    assert log.end_offset == 0


def test_an_append_in_another_leader_epoch_is_fenced(home: Home) -> None:
    log = one_log(home)
    log.append(batch([b"a"]), now_ms=NOW, epoch=log.leader_epoch)
    for epoch in (log.leader_epoch - 1, log.leader_epoch + 1):
        with pytest.raises(FencedLeaderEpoch):
            log.append(batch([b"b"]), now_ms=NOW, epoch=epoch)
    assert log.end_offset == 1


def test_a_log_of_a_closed_store_or_deleted_topic_says_so(home: Home) -> None:
    store = home.open()
    for name in ("t", "u"):
        store.create_topic(name, 1)
        store.log(name, 0).append(batch([b"a"]), now_ms=NOW)
    deleted, closed = store.log("t", 0), store.log("u", 0)
    store.delete_topic("t")
    with pytest.raises(UnknownTopic):
        deleted.append(batch([b"b"]), now_ms=NOW)
    with pytest.raises(UnknownTopic):
        store.log("t", 0)
    with pytest.raises(UnknownPartition):
        store.log("u", 1)
    store.close()
    for call in (
        lambda: closed.read(0, BIG),
        lambda: store.log("u", 0),
        closed.flush,
        lambda: store.create_topic("v", 1),
    ):
        with pytest.raises(Closed):
            call()


def test_files_are_made_with_the_first_record_and_few_stay_open(disk: Home) -> None:
    store = disk.open(max_open_segments=8)
    store.create_topic("t", 50)
    assert disk.directory.folders() == []
    for value in range(5):
        for partition in range(50):
            store.log("t", partition).append(batch([b"%d" % value]), now_ms=NOW)
    assert len(store._context.pool) == 8
    for partition in range(50):
        assert read_records(store.log("t", partition)) == [(value, b"%d" % value) for value in range(5)]
    assert len(store._context.pool) == 8


def test_what_is_left_where_it_is_is_the_same_as_what_is_read_at_once(home: Home) -> None:
    log = one_log(home, {"segment.bytes": "5000"})
    for size in range(1, 80):
        log.append(batch([bytes(size)]), now_ms=NOW)
    for offset in range(0, 80, 3):
        for max_bytes in (0, 700, 2_000, BIG):
            read = log.read(offset, max_bytes)
            left = log.locate(offset, max_bytes, at_once=0)
            assert left.next_offset == read.next_offset
            if not len(read.data):
                continue
            assert isinstance(left.data, Stretch)
            assert left.data.read() == read.data
            space = bytearray(len(left.data))
            for at in range(0, len(space), 333):
                left.data.read_into(at, memoryview(space)[at : at + 333])
            assert space == read.data
            assert log.locate(offset, max_bytes, at_once=len(space)) == read


@pytest.mark.parametrize("ends", ["deleted", "closed", "topic"])
def test_what_was_left_where_it_is_can_be_read_after_its_log_has_gone(home: Home, ends: str) -> None:
    store = home.open(max_open_segments=1)
    store.create_topic("t", 1, {})
    log = store.log("t", 0)
    log.append(batch([b"a" * 5_000]), now_ms=NOW)
    there = bytes(log.read(0, BIG).data)
    left = log.locate(0, BIG, at_once=0).data
    log.roll()
    log.append(batch([b"b"]), now_ms=NOW)
    if ends == "deleted":
        log.delete_records(1)
    elif ends == "topic":
        store.delete_topic("t")
    else:
        store.close()
    assert isinstance(left, Stretch)
    assert left.read() == there


def test_a_file_is_closed_when_its_last_reader_has_gone(disk: Home) -> None:
    log = one_log(disk)
    log.append(batch([b"a" * 5_000]), now_ms=NOW)
    left = log.locate(0, BIG, at_once=0).data
    descriptor = left._reader.number  # type: ignore[union-attr]
    log.retire(lambda: Closed("over"))
    os.fstat(descriptor)
    del left
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)


def test_a_file_that_got_shorter_is_said_to_be_damaged(disk: Home) -> None:
    log = one_log(disk)
    log.append(batch([b"a" * 5_000]), now_ms=NOW)
    left = log.locate(0, BIG, at_once=0).data
    assert isinstance(left, Stretch)
    os.ftruncate(left._reader.number, 1_000)  # type: ignore[attr-defined]
    for read in (left.read, lambda: left.read_into(900, memoryview(bytearray(500)))):
        with pytest.raises(StoreDamaged, match=r"byte 1000: the file is shorter"):
            read()
