"""Compaction keeps the last record of each key where it is; a crash at any of its steps costs nothing."""

import contextlib
import copy
import itertools
import random
import struct

import pytest

from penstock.errors import WriteFailed
from penstock.model import Codec, Partition
from penstock.records import decode_v2
from penstock.records.batch import DELETE_HORIZON, batches, verify_crc
from penstock.records.scalar_codec import stored_records
from penstock.records.scalar_reader import read_few
from penstock.records.validation import ValidatedBatch, plain_records, walk_records
from penstock.store import PartitionLog, Store, StoreConfig, StoreDamaged
from penstock.store import compaction as module
from penstock.store.filesystem import MemoryDirectory
from tests.kernels.ways import same
from tests.unit.store.homes import BIG, NOW, Home, batch

DAY = 86_400_000

KAFKAS = (
    "02bd447a2f004000000003000001a21a92171200000174876e8009ffffffffffffffffffffffffffff00000004"
    "1c00a3dc9cb2b20b00026104763100180099dc9cb2b20b02026201001a0091dc9cb2b20b040263027a00180095dc9cb2b20b0602640100"
)
"""From the magic on."""

Row = tuple[int, bytes | None, bytes | None, int]


def rows_of(log: PartitionLog) -> list[Row]:
    """(offset, key, value, timestamp ms) of all records; every batch is checked on the way."""
    found: list[Row] = []
    offset = log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, BIG)
        for header in batches(piece.data):
            verify_crc(piece.data, header)
        if piece.data:
            rows = decode_v2(piece.data, start=offset).batch
            times = [time // 1_000 for time in rows.column("timestamp").cast("int64").to_pylist()]
            columns = [rows.column(name).to_pylist() for name in ("offset", "key", "value")]
            found += zip(*columns, times, strict=True)
        offset = piece.next_offset
    return found


def compact(store: Store, now_ms: int = NOW) -> int:
    """Compact what is due; how many logs were."""
    store.flush()
    done = 0
    for compaction in store.prepare_compaction(now_ms):
        compaction.run()
        done += compaction.finish() is not None
    return done


def keyed(store: Store, count: int, keys: int = 5, seed: int = 1) -> list[Row]:
    """Append records with few keys, in batches of several; what the log then has."""
    if store.topic("t") is None:
        store.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": "700"})
    log, dice, rows = store.log("t", 0), random.Random(seed), []
    while len(rows) < count:
        part = [
            (b"k%d" % dice.randrange(keys), None if dice.random() < 0.1 else b"%d" % dice.randrange(10**6))
            for _ in range(dice.randrange(1, 6))
        ]
        times = [NOW + dice.randrange(1_000) for _ in part]
        sent = batch(
            [value for _, value in part], keys=[key for key, _ in part], times=times, codec=dice.choice(list(Codec))
        )
        first = log.append(sent, now_ms=NOW).base_offset
        rows += [(first + row, *pair, time) for row, (pair, time) in enumerate(zip(part, times, strict=True))]
    return rows


def survivors(rows: list[Row], active: int) -> list[Row]:
    """What a full compaction leaves: the last of each key below the active segment, and all of that."""
    last = {key: offset for offset, key, _, _ in rows if offset < active}
    return [row for row in rows if row[0] >= active or last[row[1]] == row[0]]


def active_base(home: Home) -> int:
    return int(home.names("t-0", ".log")[-1][:20])


def test_the_last_record_of_each_key_stays_where_it_is(home: Home) -> None:
    store = home.open()
    rows = keyed(store, 300)
    assert compact(store) == 1
    left = survivors(rows, active_base(home))
    assert len(left) < 40
    log = store.log("t", 0)
    assert rows_of(log) == left
    assert (log.start_offset, log.end_offset) == (0, len(rows))
    for again in (home.crash(), home):
        store.close()
        store = again.open()
        assert store.recovered == []
        assert rows_of(store.log("t", 0)) == left
    more = keyed(store, 200, seed=2)
    rows = rows + [(offset, *rest) for offset, *rest in more]
    compact(store)
    assert rows_of(store.log("t", 0)) == survivors(rows, active_base(home))


def test_lookups_by_time_are_exact_afterwards(home: Home) -> None:
    store = home.open()
    rows = keyed(store, 200)
    compact(store)
    left = survivors(rows, active_base(home))
    log = store.log("t", 0)
    for time in range(NOW, NOW + 1_000, 13):
        assert log.offset_for_time(time) == next(((row[0], row[3]) for row in left if row[3] >= time), None)
    best = max(left, key=lambda row: (row[3], -row[0]))
    assert log.max_timestamp() == (best[0], best[3])


def test_records_without_a_key_stay(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": "300"})
    for number in range(20):
        sent = batch([b"a%d" % number, b"b"], keys=[None, b"k"])
        store.log("t", 0).append(sent, now_ms=NOW)
    compact(store)
    kept = rows_of(store.log("t", 0))
    assert [value for _, key, value, _ in kept if key is None] == [b"a%d" % number for number in range(20)]
    assert sum(key == b"k" for _, key, _, _ in kept) < 5


def more(log: PartitionLog, now_ms: int = NOW) -> None:
    """Enough that is new for another compaction."""
    log.append(batch([b"y"] * 40, keys=[b"more"] * 40), now_ms=now_ms)
    log.roll()


def horizons(log: PartitionLog) -> list[int | None]:
    """The delete horizon of each batch of a log that fits into one read."""
    return [header.delete_horizon_ms for header in batches(log.read(log.start_offset, BIG).data)]


@pytest.mark.parametrize("time", [NOW - 1_000 * DAY, NOW + DAY, -1], ids=["old", "to come", "none"])
def test_a_tombstone_stays_for_its_time_after_the_first_compaction_that_met_it(home: Home, time: int) -> None:
    """However old its record says it is: a reader that has seen what was before it has that time to see it."""
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000"})
    log = store.log("t", 0)
    for value in (b"1", None):
        log.append(batch([value, b"x"], keys=[b"k", b"other"], times=[time, time]), now_ms=NOW)
    log.roll()
    compact(store, NOW + 5_000)
    assert rows_of(log)[:2] == [(2, b"k", None, time), (3, b"other", b"x", time)]
    assert horizons(log)[0] == NOW + 6_000
    more(log)
    # It was said then until when: neither another start nor another option changes that.
    store.close()
    store = home.open()
    store.set_config("t", {"cleanup.policy": "compact", "delete.retention.ms": "0"})
    log = store.log("t", 0)
    assert compact(store, NOW + 5_999) == 1
    assert rows_of(log)[:2] == [(2, b"k", None, time), (3, b"other", b"x", time)]
    more(log)
    assert compact(store, NOW + 6_000) == 1
    assert rows_of(log)[0] == (3, b"other", b"x", time)
    more(log)
    log.append(batch([b"z"], keys=[b"other"]), now_ms=NOW)
    log.roll()
    assert compact(store, NOW + 6_000) == 1
    assert [row[1] for row in rows_of(log)] == [b"more", b"other"]
    assert horizons(log) == [None, None]


@pytest.mark.parametrize("append_time", [False, True])
@pytest.mark.parametrize("codec", list(Codec))
def test_every_reader_sees_the_times_of_records_behind_a_delete_horizon(
    home: Home, codec: Codec, append_time: bool
) -> None:
    kind = "LogAppendTime" if append_time else "CreateTime"
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "message.timestamp.type": kind})
    log = store.log("t", 0)
    said = [NOW - 7 * DAY, -1, NOW + 90, NOW - 7 * DAY + 1]
    keys, values = [b"a", b"b", b"c", b"d"], [b"1", None, b"3" * 300, None]
    log.append(batch(values, keys=keys, times=said, codec=codec), now_ms=NOW + 7)
    log.roll()
    assert compact(store, NOW + 20 * DAY) == 1
    assert horizons(log) == [NOW + 21 * DAY]
    times = [NOW + 7] * 4 if append_time else said
    rows = list(zip(range(4), keys, values, times, strict=True))
    assert same(lambda: rows_of(log)) == rows
    data = bytes(log.read(0, BIG).data)
    (header,) = batches(data)
    assert (header.codec, header.max_timestamp, header.record_count) == (codec, max(times), 4)
    assert [(each.offset, each.key, each.value, each.timestamp_ms) for each in stored_records(data, 0)] == rows
    if codec is Codec.NONE:
        few = read_few(data, Partition("t", 0), start=0)
        assert few is not None
        assert [(each.offset, each.key, each.value, each.timestamp_ms) for each in few[0]] == rows
    found = walk_records(plain_records(data, header), 4)
    if not append_time:
        assert (header.base_timestamp + found.least, header.base_timestamp + found.largest) == (-1, NOW + 90)
    for time in (NOW - 8 * DAY, NOW - 7 * DAY + 1, NOW + 7, NOW + 90, NOW + 91):
        wanted = next(((row[0], row[3]) for row in rows if row[3] >= time), None)
        assert log.offset_for_time(time) == wanted
    assert log.max_timestamp() == (0 if append_time else 2, max(times))


def test_a_delete_horizon_is_written_as_kafka_does(home: Home) -> None:
    """The batch before and after it was compacted by a real broker (4.3.1)."""
    old = 1_600_000_000_000
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "20000"})
    log = store.log("t", 0)
    sent = batch([b"v1", None, b"z", None], keys=[b"a", b"b", b"c", b"d"], times=[old, old + 5, old + 9, old + 7])
    log.append(sent, now_ms=NOW)
    log.roll()
    assert compact(store, 1_795_742_091_506) == 1
    assert bytes(log.read(0, BIG).data)[16:].hex() == KAFKAS


def test_a_tombstone_behind_too_many_keys_waits_with_them(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it stands for is still there: its time has not begun."""
    monkeypatch.setattr(module, "_MAX_KEYS", 3)
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "0"})
    log = store.log("t", 0)
    log.append(batch([b"1", None], keys=[b"a", b"b"]), now_ms=NOW)
    log.append(batch([b"1"], keys=[b"c"]), now_ms=NOW)
    log.append(batch([None], keys=[b"a"]), now_ms=NOW)
    log.roll()
    assert compact(store) == 1
    assert horizons(log) == [NOW, None, None]
    assert compact(store) == 1
    assert [row[:3] for row in rows_of(log)] == [(2, b"c", b"1"), (3, b"a", None)]
    assert horizons(log) == [None, NOW]


def test_a_batch_that_grows_beyond_a_segment_gets_one_of_its_own(home: Home) -> None:
    """A delete horizon takes some bytes more in each record."""
    store = home.open()
    size = len(batch([None] * 40, keys=[b"0-%02d" % each for each in range(40)]))
    store.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": str(size)})
    log = store.log("t", 0)
    for number in range(4):
        log.append(batch([None] * 40, keys=[b"%d-%02d" % (number, each) for each in range(40)]), now_ms=NOW)
    log.roll()
    rows = rows_of(log)
    assert compact(store) == 1
    assert [header.length > size for header in batches(log.read(0, BIG).data)] == [True]
    assert (rows_of(log), log.segments) == (rows, 5)
    store.close()
    assert rows_of(home.open().log("t", 0)) == rows


def test_a_difference_of_more_than_64_bits_leaves_a_tombstone_for_good(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "0"})
    log = store.log("t", 0)
    far = bytearray(batch([None], keys=[b"k"]))
    struct.pack_into(">q", far, 27, 1 - (1 << 63))
    struct.pack_into(">I", far, 17, module.crc32c(far, 21))
    log.append(ValidatedBatch(far), now_ms=NOW)
    for _ in range(2):
        more(log)
        compact(store)
    assert bytes(log.read(0, 1).data)[16:] == far[16:]
    assert horizons(log)[0] is None


def test_only_a_compaction_sets_a_delete_horizon(home: Home) -> None:
    """A producer that claims one would have its tombstones dropped by the first compaction."""
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000"})
    log = store.log("t", 0)
    claims = bytearray(batch([None], keys=[b"k"], times=[NOW - DAY]))
    struct.pack_into(">h", claims, 21, DELETE_HORIZON)
    struct.pack_into(">I", claims, 17, module.crc32c(claims, 21))
    log.append(bytes(claims), now_ms=NOW)
    assert horizons(log) == [None]
    log.roll()
    compact(store)
    assert horizons(log) == [NOW + 1_000]


def test_nothing_is_done_where_nothing_is_wanted_or_little_is_new(home: Home) -> None:
    store = home.open()
    store.create_topic("plain", 1, {"segment.bytes": "100"})
    for _ in range(10):
        store.log("plain", 0).append(batch([b"x"], keys=[b"k"]), now_ms=NOW)
    assert compact(store) == 0
    keyed(store, 200)
    assert store.prepare_compaction(NOW) == []  # nothing is synced yet
    assert compact(store) == 1
    assert compact(store) == 0
    keyed(store, 200, seed=3)
    assert compact(store) == 1


def ratio_topic(store: Store, **options: str) -> PartitionLog:
    """Three closed segments that are clean, one that is not."""
    store.create_topic("t", 1, {"cleanup.policy": "compact", **options})
    log = store.log("t", 0)
    for number in range(3):
        log.append(batch([b"x" * 100], keys=[b"k%d" % number]), now_ms=NOW)
        log.roll()
    compact(store)
    log.append(batch([b"y"], keys=[b"k0"], times=[NOW + 5]), now_ms=NOW + 5)
    log.roll()
    return log


def test_how_much_must_be_new_is_the_topics_choice(home: Home) -> None:
    store = home.open()
    log = ratio_topic(store)
    assert compact(store) == 0
    store.set_config("t", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
    assert compact(store) == 1
    assert [row[1] for row in rows_of(log)] == [b"k1", b"k2", b"k0"]


def test_young_records_are_safe(home: Home) -> None:
    store = home.open()
    ratio_topic(store, **{"min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "1000"})
    assert compact(store, NOW + 1_004) == 1  # the first three, which are older
    assert compact(store, NOW + 1_004) == 0
    assert compact(store, NOW + 1_005) == 1
    assert compact(store, NOW + 9_999) == 0


def test_old_records_do_not_wait_for_others(home: Home) -> None:
    store = home.open()
    log = ratio_topic(store, **{"max.compaction.lag.ms": "1000"})
    assert compact(store, NOW + 1_005) == 0
    assert compact(store, NOW + 1_006) == 1
    # Nor does the segment that is written to grow older than that.
    log.append(batch([b"z"], keys=[b"k"]), now_ms=NOW)
    log.append(batch([b"z"], keys=[b"k"]), now_ms=NOW + 999)
    before = log.segments
    log.append(batch([b"z"], keys=[b"k"]), now_ms=NOW + 1_000)
    assert log.segments == before + 1


def test_only_one_compaction_of_a_log_at_a_time(home: Home) -> None:
    store = home.open()
    keyed(store, 100)
    store.flush()
    (compaction,) = store.prepare_compaction(NOW)
    assert store.prepare_compaction(NOW) == []
    assert compaction.finish() is None  # it did not run
    assert compact(store) == 1


def test_a_log_that_changed_meanwhile_is_left_alone(home: Home) -> None:
    store = home.open()
    rows = keyed(store, 100)
    store.flush()
    (compaction,) = store.prepare_compaction(NOW)
    compaction.run()
    log = store.log("t", 0)
    log.delete_records(50)
    more = [(offset, *rest) for offset, *rest in keyed(store, 30, seed=2)]
    assert compaction.finish() is None
    assert rows_of(log) == (rows + more)[50:]
    assert not home.names("t-0", "")[-1].startswith("cleaned-")
    compact(store)
    store.flush()
    keyed(store, 200, seed=5)
    store.flush()
    (compaction,) = store.prepare_compaction(NOW)
    store.delete_topic("t")
    with contextlib.suppress(WriteFailed):  # on a disk its files are gone
        compaction.run()
    assert compaction.finish() is None
    assert home.directory.folders() == []


def test_appends_go_on_while_another_thread_compacts(home: Home) -> None:
    store = home.open()
    rows = keyed(store, 100)
    store.flush()
    base = active_base(home)
    (compaction,) = store.prepare_compaction(NOW)
    compaction.run()
    rows += keyed(store, 100, seed=2)
    assert compaction.finish() is not None
    assert rows_of(store.log("t", 0)) == survivors(rows, base)


def test_keys_beyond_the_limit_wait_for_the_next_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEYS", 10)
    store = home.open()
    rows = keyed(store, 400, keys=40)
    log = store.log("t", 0)
    sizes = [log.size]
    while compact(store):
        sizes.append(log.size)
        kept = {row[1]: row for row in rows_of(log)}
        assert kept == {row[1]: row for row in rows}
    assert len(sizes) > 3
    assert sizes == sorted(sizes, reverse=True)


def test_producers_and_what_nobody_can_read_are_kept(home: Home) -> None:
    store = home.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": "400"})
    log = store.log("t", 0)
    strange = bytearray(batch([b"not records"], keys=[b"k"]))
    strange[61:] = bytes(len(strange) - 61)
    struct.pack_into(">I", strange, 17, module.crc32c(strange, 21))
    log.append(ValidatedBatch(strange), now_ms=NOW)  # nobody looks into it, as an older node did not
    for number in range(0, 20, 2):
        log.append(batch([b"a", b"b"], keys=[b"k", b"k%d" % number], producer=(4, 0, number)), now_ms=NOW)
    compact(store)
    assert bytes(log.read(0, 1).data)[61:] == strange[61:]
    kept = list(batches(log.read(1, BIG).data))
    assert kept[0].producer_id == 4
    assert (kept[0].base_sequence, kept[0].last_offset_delta, kept[0].record_count) == (0, 1, 1)
    again = home.crash().open().log("t", 0)
    assert again.append(batch([b"a", b"b"], keys=[b"k", b"k18"], producer=(4, 0, 18)), now_ms=NOW).duplicate


def test_what_an_earlier_compaction_left_does_not_get_into_the_log(home: Home) -> None:
    store = home.open()
    rows = keyed(store, 100)
    base = active_base(home)
    for suffix in (".log", ".index", ".timeindex"):
        home.damage("t-0", f"cleaned-{0:020}{suffix}", bytes(5_000))
    assert compact(store) == 1
    store.close()
    store = home.open()
    assert store.recovered == []
    assert rows_of(store.log("t", 0)) == survivors(rows, base)


def test_damage_is_not_compacted_away(home: Home) -> None:
    store = home.open()
    rows = keyed(store, 100)
    store.flush()
    name = home.names("t-0", ".log")[0]
    whole = home.load("t-0", name)
    log_file = home.directory.folder("t-0").open(name)
    log_file.write(70, [b"\xff"])
    log_file.close()
    (compaction,) = store.prepare_compaction(NOW)
    with pytest.raises(StoreDamaged) as caught:
        compaction.run()
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert compaction.finish() is None
    home.damage("t-0", name, whole)
    left = home.crash().open().log("t", 0)
    assert rows_of(left) == rows


class Crash(OSError):
    """The process is gone."""


class CrashingDirectory(MemoryDirectory):
    """A directory that is cut off from the world after some changes."""

    changes_left = BIG

    def _change(self) -> None:
        CrashingDirectory.changes_left -= 1
        if CrashingDirectory.changes_left < 0:
            raise Crash

    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = CrashingDirectory(name)
        return super().folder(name)

    def replace(self, name: str, data: bytes, *, durable: bool) -> None:
        self._change()
        super().replace(name, data, durable=durable)

    def rename(self, old: str, new: str) -> None:
        self._change()
        super().rename(old, new)

    def remove(self, name: str) -> None:
        self._change()
        super().remove(name)


def test_a_crash_at_any_step_leaves_the_old_log_or_the_new_one() -> None:
    directory = CrashingDirectory()
    store = Store(directory, StoreConfig(), now_ms=NOW)
    rows = keyed(store, 100)
    store.flush()
    active = int(max(name for name in directory.folder("t-0").files() if name.endswith(".log"))[:20])
    outcomes = []
    for steps in itertools.count():
        (compaction,) = store.prepare_compaction(NOW)
        CrashingDirectory.changes_left = steps
        try:
            compaction.run()
            compaction.finish()
        except WriteFailed:
            pass
        else:
            break
        finally:
            CrashingDirectory.changes_left = BIG
            left = copy.deepcopy(directory)
        left.unlock()
        with Store(left, StoreConfig(), now_ms=NOW) as again:
            assert again.recovered == []
            outcomes.append(rows_of(again.log("t", 0)))
            assert keyed(again, 5)[0][0] == len(rows)
        # The store in hand is torn between old and new files; the next crash gets another.
        directory = CrashingDirectory()
        store = Store(directory, StoreConfig(), now_ms=NOW)
        rows = keyed(store, 100)
        store.flush()
    assert outcomes[0] == rows
    assert outcomes[-1] == survivors(rows, active)
    assert all(outcome in (rows, survivors(rows, active)) for outcome in outcomes)
    assert len(outcomes) > 10
