"""The largest time in a batch's head is its records', whoever wrote it; what an older node believed is put right."""

import contextlib
import struct
from pathlib import Path

import pytest

from penstock.errors import CorruptBatch, WriteFailed
from penstock.model import Codec
from penstock.records.batch import CRC_START, batches, crc32c, verify_crc
from penstock.records.validation import ValidatedBatch, verified
from penstock.store import Store, StoreDamaged
from tests.unit.store.homes import BIG, NOW, Home, batch, homes, read_records

DAY = 86_400_000
CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4]


def lying(data: bytes, max_ms: int) -> bytes:
    """The batch with another largest time in its head, and a checksum that fits."""
    changed = bytearray(data)
    struct.pack_into(">q", changed, 35, max_ms)
    struct.pack_into(">I", changed, 17, crc32c(changed, CRC_START))
    return bytes(changed)


def heads(store: Store) -> list[int]:
    """The largest time in each head, as it is stored; every checksum is verified."""
    log = store.log("t", 0)
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, BIG)
        for header in batches(piece.data):
            verify_crc(piece.data, header)
            found.append(header.max_timestamp)
        offset = piece.next_offset
    return found


def check_all(store: Store) -> int:
    """Rounds of checks until nothing is left; how many heads were put right."""
    found = 0
    for _ in range(10):
        store.flush()
        for check in store.prepare_head_checks(NOW):
            check.run()
            found += check.finish()
    assert not list(store.prepare_head_checks(NOW))
    return found


def old_store(home: Home, claims: list[int], codec: Codec = Codec.NONE, **config: str) -> Store:
    """What an older node left: a record a minute old in each batch and segment, whose head claims another time.

    The store was closed in good order; it is opened again.
    """
    store = home.open()
    store.create_topic("t", 1, {"segment.bytes": "150", **config})
    log = store.log("t", 0)
    for row, claim in enumerate(claims):
        right = batch([b"%03d" % row * 20], keys=[b"k%d" % row], times=[NOW - 60_000 + row], codec=codec)
        log.append(ValidatedBatch(lying(right, claim)), now_ms=NOW)
    store.close()
    make_old(home)
    return home.open()


def make_old(home: Home) -> None:
    text = home.load("t-0", "partition.metadata")
    home.damage("t-0", "partition.metadata", b"".join(line for line in text.splitlines(True) if b"heads" not in line))


CLAIMS = [NOW - 30 * DAY, NOW + 30 * DAY, -1, NOW - 60_000 + 3, -(2**63), 2**63 - 1]
RIGHT = [NOW - 60_000 + row for row in range(len(CLAIMS))]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_batch_from_anywhere_gets_the_time_of_its_records(home: Home, claim: int, codec: Codec) -> None:
    store = home.open()
    store.create_topic("t", 1)
    right = batch([b"a", b"b", b"c"], times=[NOW - 5, NOW + 5, NOW], codec=codec)
    store.log("t", 0).append(lying(right, claim), now_ms=NOW)
    assert heads(store) == [NOW + 5]
    assert bytes(store.log("t", 0).read(0, BIG).data)[61:] == right[61:]
    assert store.log("t", 0).max_timestamp() == (1, NOW + 5)


def test_a_right_batch_is_stored_as_it_came() -> None:
    data = batch([b"a", b"b"], times=[NOW, NOW - 7])
    assert verified(data).data is data


def test_a_batch_that_counts_wrong_is_refused(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    for at, number in ((57, 3), (23, 2), (57, 1)):
        wrong = bytearray(batch([b"a", b"b"]))
        struct.pack_into(">i", wrong, at, number)
        struct.pack_into(">I", wrong, 17, crc32c(wrong, CRC_START))
        with pytest.raises(CorruptBatch):
            store.log("t", 0).append(wrong, now_ms=NOW)
    assert store.log("t", 0).end_offset == 0


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_retention_deletes_nothing_by_a_time_that_nobody_checked(home: Home, codec: Codec) -> None:
    store = old_store(home, CLAIMS, codec, **{"retention.ms": str(7 * DAY)})
    assert store.enforce_retention(NOW + DAY) == []
    assert check_all(store) == len([1 for claim, right in zip(CLAIMS, RIGHT, strict=True) if claim != right])
    assert heads(store) == RIGHT
    assert store.enforce_retention(NOW + DAY) == []
    assert len(read_records(store.log("t", 0))) == len(CLAIMS)


def test_a_time_in_the_future_keeps_no_old_record(home: Home) -> None:
    store = old_store(home, [NOW + 365 * DAY] * 4, **{"retention.ms": str(7 * DAY)})
    check_all(store)
    assert [one.segments for one in store.enforce_retention(NOW + 8 * DAY)]
    assert store.log("t", 0).start_offset >= 3


@pytest.mark.parametrize("checked", [False, True], ids=["before", "after"])
def test_lookups_by_time_are_right_before_and_after_the_check(home: Home, checked: bool) -> None:
    store = old_store(home, CLAIMS)
    if checked:
        check_all(store)
    log = store.log("t", 0)
    for row, time in enumerate(RIGHT):
        assert log.offset_for_time(time) == (row, time)
    assert log.offset_for_time(RIGHT[-1] + 1) is None
    assert log.offset_for_time(-5) == (0, RIGHT[0])
    assert log.max_timestamp() == (len(CLAIMS) - 1, RIGHT[-1])
    log.delete_records(3)
    assert log.offset_for_time(0) == (3, RIGHT[3])


def test_a_store_is_checked_once(home: Home) -> None:
    store = old_store(home, CLAIMS)
    assert check_all(store)
    store.log("t", 0).append(batch([b"new"]), now_ms=NOW)
    store.close()
    assert not list(home.open().prepare_head_checks(NOW))


def test_what_this_node_wrote_is_not_checked_again(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1)
    store.log("t", 0).append(batch([b"a"]), now_ms=NOW)
    for again in (home.crash(), home):
        if again is home:
            store.close()
        assert not list(again.open().prepare_head_checks(NOW))


def test_records_of_this_node_behind_those_of_an_older_one(home: Home) -> None:
    store = old_store(home, [NOW - 30 * DAY, NOW + 30 * DAY], **{"segment.bytes": "10000"})
    log = store.log("t", 0)
    log.append(lying(batch([b"new"], times=[NOW]), NOW - 9 * DAY), now_ms=NOW)
    assert check_all(store) == 2
    assert heads(store) == [*RIGHT[:2], NOW]
    assert log.segments == 2  # the one that was written to had to be closed first
    assert log.offset_for_time(NOW) == (2, NOW)


def test_a_crash_at_any_step_of_a_check_leaves_the_old_segment_or_the_new_one(home: Home) -> None:
    store = old_store(home, CLAIMS)
    store.flush()
    for check in store.prepare_head_checks(NOW):
        stages = [home.crash()]
        check.run()
        stages.append(home.crash())
        check.finish()
        stages.append(home.crash())
        for stage in stages:
            again = stage.open()
            assert again.recovered == []
            assert len(read_records(again.log("t", 0))) == len(CLAIMS)
            assert again.log("t", 0).offset_for_time(RIGHT[2]) == (2, RIGHT[2])
            check_all(again)
            assert heads(again) == RIGHT
            again.close()


def test_markers_and_what_nobody_can_read_stay_as_they_are(home: Home) -> None:
    strange = bytearray(batch([b"x" * 40], times=[NOW - DAY]))
    strange[61:] = bytes(len(strange) - 61)
    store = home.open()
    store.create_topic("t", 1)
    kept = lying(bytes(strange), NOW - 5)
    store.log("t", 0).append(ValidatedBatch(kept), now_ms=NOW)
    store.close()
    make_old(home)
    store = home.open()
    assert check_all(store) == 0
    assert bytes(store.log("t", 0).read(0, BIG).data)[61:] == kept[61:]


def test_a_log_that_is_damaged_or_gone_stops_no_other_check(home: Home) -> None:
    store = old_store(home, CLAIMS)
    checks = store.prepare_head_checks(NOW)
    check = next(checks)
    name = home.names("t-0", ".log")[0]
    home.damage("t-0", name, bytes(len(home.load("t-0", name))))
    with pytest.raises(StoreDamaged):
        check.run()
    assert check.finish() == 0
    following = next(checks)
    following.run()
    store.delete_topic("t")
    assert following.finish() == 0
    assert list(checks) == []


def test_a_disk_error_is_told_and_tried_again_later(tmp_path: Path) -> None:
    for home in homes("disk", tmp_path):
        store = old_store(home, CLAIMS)
        assert home.path is not None
        in_the_way = home.path / "t-0" / f"cleaned-{0:020}.log"
        in_the_way.mkdir()
        (check,) = store.prepare_head_checks(NOW)
        with pytest.raises(WriteFailed, match="cannot put batch heads right"):
            check.run()
        with contextlib.suppress(WriteFailed):
            check.finish()
        in_the_way.rmdir()
        assert not list(store.prepare_head_checks(NOW + 60_000))
        (check,) = store.prepare_head_checks(NOW + 3_600_000)
        check.run()
        assert check.finish() == 1
        assert heads(store)[0] == RIGHT[0]


def test_a_tombstone_is_as_old_as_its_record(home: Home) -> None:
    """A head that claims a tombstone to be old let compaction drop it before anybody could read it."""
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": "150", "delete.retention.ms": str(DAY)})
    log = store.log("t", 0)
    for row in range(3):
        dead = batch([None, b"v" * 60], keys=[b"k%d" % row, b"x%d" % row], times=[NOW, NOW])
        log.append(ValidatedBatch(lying(dead, NOW - 30 * DAY)), now_ms=NOW)
    store.flush()
    for compaction in store.prepare_compaction(NOW):
        compaction.run()
        compaction.finish()
    assert [value for _, value in read_records(log)].count(None) == 3  # type: ignore[arg-type]
