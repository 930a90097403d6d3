"""Transactions in a log: what is stable, what was aborted, whatever happens to the process in between."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CorruptBatch, OutOfOrderSequence, OutsideTransaction, StaleProducerEpoch
from penstock.records import decode_v2, encode_v2
from penstock.records.batch import ABORT, COMMIT, Producing, batches, control_type, end_marker
from penstock.store import PartitionLog, Store
from penstock.store.log_state import Aborted, AbortedIndex, from_bytes, to_bytes
from tests.unit.store.homes import BIG, NOW, Home, batch
from tests.unit.store.test_compaction import compact

DATA = Path(__file__).parents[2] / "data" / "kafka" / "batches"


def sent(producer: int, sequence: int, *values: bytes, epoch: int = 0, key: bytes | None = None) -> bytes:
    rows = pa.record_batch({"key": pa.array([key] * len(values), pa.binary()), "value": pa.array(values, pa.binary())})
    return bytes(encode_v2(rows, producing=Producing(producer, epoch, sequence, True), timestamp_ms=NOW))


def marker(producer: int, *, commit: bool, epoch: int = 0) -> bytes:
    return end_marker(producer, epoch, commit=commit, coordinator_epoch=3, now_ms=NOW)


def opened(home: Home, **config: str) -> tuple[Store, PartitionLog]:
    store = home.open()
    if store.topic("t") is None:
        store.create_topic("t", 1, {name.replace("_", "."): value for name, value in config.items()})
    return store, store.log("t", 0)


def append(log: PartitionLog, *batches: bytes) -> list[int]:
    return [log.append(each, now_ms=NOW).base_offset for each in batches]


def visible(log: PartitionLog) -> list[bytes]:
    """What a reader of committed records gets, in pieces as small as they come."""
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.stable_offset:
        piece = log.read(offset, 1, stable=True)
        aborted = [(each.producer_id, each.first) for each in log.aborted(offset, piece.next_offset)]
        if piece.data:
            found += decode_v2(piece.data, start=offset, aborted=aborted).batch.column("value").to_pylist()
        assert piece.next_offset > offset
        offset = piece.next_offset
    assert not log.read(offset, BIG, stable=True).data
    return found


def test_the_first_open_transaction_is_where_stable_ends(home: Home) -> None:
    _, log = opened(home)
    assert log.stable_offset == 0
    append(log, batch([b"plain"]), sent(1, 0, b"a"), sent(2, 0, b"b"), batch([b"plain"]))
    assert (log.stable_offset, log.end_offset) == (1, 4)
    append(log, marker(2, commit=True))
    assert log.stable_offset == 1
    append(log, marker(1, commit=False))
    assert log.stable_offset == log.end_offset == 6
    assert log.aborted(0, 6) == [Aborted(1, 1, 5, 6)]
    assert log.aborted(0, 1) == log.aborted(6, 9) == []
    assert visible(log) == [b"plain", b"b", b"plain"]


def test_readers_of_everything_see_what_is_open(home: Home) -> None:
    _, log = opened(home)
    append(log, sent(1, 0, b"a", b"b"))
    assert log.read(0, BIG).next_offset == 2
    assert log.read(0, BIG, stable=True) == (b"", 0)
    assert log.read(1, BIG, stable=True) == (b"", 1)


def test_a_marker_may_raise_the_epoch_and_then_sequences_begin_anew(home: Home) -> None:
    _, log = opened(home)
    append(log, sent(1, 0, b"a", b"b"), marker(1, commit=True, epoch=1))
    with pytest.raises(StaleProducerEpoch):
        append(log, sent(1, 2, b"c"))
    with pytest.raises(OutOfOrderSequence):
        append(log, sent(1, 2, b"c", epoch=1))
    append(log, sent(1, 0, b"c", epoch=1))
    with pytest.raises(StaleProducerEpoch):
        append(log, marker(1, commit=True, epoch=0))
    append(log, marker(1, commit=True, epoch=1), sent(1, 1, b"d", epoch=1))
    assert log.stable_offset == 5


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(home: Home) -> None:
    _, log = opened(home)
    append(log, sent(1, 0, b"a"))
    with pytest.raises(OutsideTransaction):
        append(log, batch([b"x"], producer=(1, 0, 1)))
    append(log, marker(1, commit=True), batch([b"x"], producer=(1, 0, 1)))
    assert visible(log) == [b"a", b"x"]


def test_a_batch_without_sequence_takes_part(home: Home) -> None:
    """A group's offsets, which the node itself writes."""
    _, log = opened(home)
    append(log, sent(1, -1, b"a"), sent(1, -1, b"b"))
    assert log.stable_offset == 0
    append(log, marker(1, commit=False))
    assert visible(log) == []
    assert log.aborted(0, 9) == [Aborted(1, 0, 2, 3)]


@pytest.mark.parametrize("clean", [True, False])
def test_open_and_aborted_transactions_are_known_again(home: Home, clean: bool) -> None:
    store, log = opened(home, segment_bytes="200")
    append(log, sent(1, 0, b"a"), sent(2, 0, b"b"), marker(1, commit=False), sent(3, 0, b"c"), sent(1, 1, b"d"))
    append(log, marker(2, commit=True), marker(1, commit=False))
    assert log.segments > 2
    if clean:
        store.close()
    else:
        home = home.crash()
    _, again = opened(home)
    assert again.stable_offset == 3
    assert again.aborted(0, 99) == log.aborted(0, 99) == [Aborted(1, 0, 2, 1), Aborted(1, 4, 6, 3)]
    append(again, marker(3, commit=True))
    assert visible(again) == [b"b", b"c"]


@pytest.mark.parametrize("damage", [b"x", bytes(34), bytes(33)])
def test_an_index_of_aborted_transactions_that_is_damaged_is_made_anew(home: Home, damage: bytes) -> None:
    store, log = opened(home, segment_bytes="200")
    for producer in range(6):
        append(log, sent(producer, 0, b"x"), marker(producer, commit=False))
    known = log.aborted(0, 99)
    assert len(known) == 6
    name = home.names("t-0", ".txnindex")[0]
    for left in (home.crash(), None):
        if left is None:
            store.close()
            left = home
        left.damage("t-0", name, damage)
        assert opened(left)[1].aborted(0, 99) == known


def test_kafkas_index_of_aborted_transactions_is_what_is_written(home: Home) -> None:
    store, log = opened(home)
    append(log, sent(7, 0, b"a", b"b"), marker(7, commit=False))
    store.close()
    data = home.load("t-0", f"{0:020}.txnindex")
    # Version 0; producer id, first offset, last offset, last stable offset (Kafka, TransactionIndex).
    assert data == bytes(2) + b"".join(each.to_bytes(8, "big") for each in (7, 0, 2, 3))


def test_retention_leaves_what_a_transaction_has_open(home: Home) -> None:
    store, log = opened(home, segment_bytes="100", retention_ms="1")
    append(log, batch([b"old"]), sent(1, 0, b"a"), batch([b"b"]), batch([b"c"]))
    assert log.segments == 4
    store.enforce_retention(NOW + 10**9)
    assert (log.start_offset, log.stable_offset) == (1, 1)
    append(log, marker(1, commit=True), batch([b"d"]))
    store.enforce_retention(NOW + 10**9)
    assert log.start_offset == 5


def test_deleting_records_moves_the_stable_end_with_the_start(home: Home) -> None:
    _, log = opened(home)
    append(log, sent(1, 0, b"a"), batch([b"b"]), batch([b"c"]))
    log.delete_records(2)
    assert (log.start_offset, log.stable_offset, log.end_offset) == (2, 2, 3)
    append(log, marker(1, commit=False))
    assert visible(log) == [b"c"]


def test_a_quiet_producer_with_an_open_transaction_is_remembered(home: Home) -> None:
    store, log = opened(home)
    append(log, sent(1, 0, b"a"))
    store.enforce_retention(NOW + 10**10)
    assert log.stable_offset == 0
    with pytest.raises(OutOfOrderSequence):
        append(log, sent(1, 5, b"b"))


def test_compaction_keeps_what_is_committed_not_what_was_aborted_after_it(home: Home) -> None:
    store, log = opened(home, segment_bytes="300", cleanup_policy="compact")
    append(log, batch([b"good"], keys=[b"k"]), sent(1, 0, b"bad", key=b"k"), marker(1, commit=False))
    append(log, sent(1, 1, b"first", key=b"j"), sent(1, 2, b"second", key=b"j"), marker(1, commit=True))
    append(log, *[batch([b"filler"], keys=[b"f%d" % each]) for each in range(8)])
    assert compact(store) == 1
    for each in (log, opened(home.crash())[1]):
        assert [value for value in visible(each) if value != b"filler"] == [b"good", b"second"]
        assert each.aborted(0, 99) == [Aborted(1, 1, 2, 3)]


def test_the_marker_that_compaction_leaves_has_the_newest_time(home: Home) -> None:
    store, log = opened(home, segment_bytes="300", cleanup_policy="compact")
    append(log, sent(1, 0, b"gone", key=b"k"), end_marker(1, 0, commit=True, coordinator_epoch=3, now_ms=NOW + 9))
    for number in range(6):
        append(log, sent(2, number, b"later", key=b"k"))
    append(log, marker(2, commit=True))
    log.roll()
    assert compact(store) == 1
    assert (log.offset_for_time(NOW + 1), log.max_timestamp()) == ((1, NOW + 9), (1, NOW + 9))


def test_compaction_stops_at_an_open_transaction(home: Home) -> None:
    store, log = opened(home, segment_bytes="150", cleanup_policy="compact")
    append(log, sent(1, 0, b"open", key=b"k"), *[batch([b"%d" % each], keys=[b"k"]) for each in range(8)])
    assert compact(store) == 0
    append(log, marker(1, commit=True), batch([b"last"], keys=[b"j"]), batch([b"last"], keys=[b"i"]))
    assert compact(store) == 1
    assert visible(log)[-2:] == [b"last", b"last"]


def test_the_end_of_a_transaction_stays_as_long_as_anything_of_it_and_not_much_longer(home: Home) -> None:
    options = {"cleanup_policy": "compact", "delete_retention_ms": "1000", "min_cleanable_dirty_ratio": "0"}
    store, log = opened(home, segment_bytes="300", **options)
    append(log, sent(1, 0, b"kept", key=b"k"), marker(1, commit=True))
    append(log, sent(1, 1, b"bad", key=b"k"), marker(1, commit=False))
    append(log, sent(1, 2, b"old", key=b"j"), marker(1, commit=True), batch([b"new"], keys=[b"j"]))
    append(log, *[batch([b"filler"], keys=[b"f%d" % each]) for each in range(8)])
    log.roll()
    # However old they are: their time begins when nothing else is left of the transaction.
    for later in (5_000, 5_999):
        assert compact(store, NOW + later) == 1
        assert markers_of(log) == [1, 3, 5]
        assert [(entry.first, entry.last) for entry in log.aborted(0, 99)] == [(2, 3)]
        append(log, *[batch([b"filler"], keys=[b"f%d" % each]) for each in range(20)])
        log.roll()
        home = home.crash()
        store, log = opened(home)
    assert compact(store, NOW + 6_000) == 1
    for each in (log, opened(home.crash())[1]):
        assert markers_of(each) == [1]
        assert [value for value in visible(each) if value != b"filler"] == [b"kept", b"new"]
        assert each.aborted(0, 99) == []
        assert each.stable_offset == each.end_offset


def markers_of(log: PartitionLog) -> list[int]:
    """Offsets of the markers."""
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, BIG)
        found += [header.base_offset for header in batches(piece.data) if header.control]
        offset = piece.next_offset
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_log_of_transactions_that_was_compacted_again_and_again_says_what_it_said(home: Home, seed: int) -> None:
    """However old its markers are, and also after a crash."""
    store, log = opened(home, segment_bytes="400", cleanup_policy="compact", delete_retention_ms="0")
    dice, latest, now = random.Random(seed), dict[bytes, tuple[int, bytes]](), NOW
    wanted: dict[int, list[tuple[bytes, int, bytes]]] = {}
    sequences = dict.fromkeys(range(3), 0)
    for number in range(150):
        producer, key, value = dice.randrange(3), b"k%d" % dice.randrange(6), b"%d" % number
        if dice.random() < 0.4 and producer in wanted:
            commit = dice.random() < 0.5
            append(log, marker(producer, commit=commit))
            for name, at, said in wanted.pop(producer) if commit else ():
                latest[name] = max(latest.get(name, (-1, b"")), (at, said))
            wanted.pop(producer, None)
        elif dice.random() < 0.5:
            (at,) = append(log, sent(producer, sequences[producer], value, key=key))
            sequences[producer] += 1
            wanted.setdefault(producer, []).append((key, at, value))
        else:
            (at,) = append(log, batch([value], keys=[key]))
            latest[key] = max(latest.get(key, (-1, b"")), (at, value))
        if dice.random() < 0.1:
            now += 10
            compact(store, now)
    append(log, *(marker(producer, commit=False) for producer in wanted))
    log.roll()
    compact(store, now + 10)
    for each in (log, opened(home.crash())[1]):
        said = dict[bytes, bytes]()
        offset = each.start_offset
        while offset < each.stable_offset:
            piece = each.read(offset, BIG, stable=True)
            aborted = [(one.producer_id, one.first) for one in each.aborted(offset, piece.next_offset)]
            if piece.data:
                rows = decode_v2(piece.data, start=offset, aborted=aborted).batch
                said.update(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))
            offset = piece.next_offset
        assert said == {key: value for key, (_, value) in latest.items()}
        assert each.stable_offset == each.end_offset


@dataclass
class Model:
    """What a log must show: values in order, each with its transaction's producer, None while that is open."""

    rows: list[tuple[int, bytes, int | None]] = field(default_factory=list)
    fates: dict[int, bool | None] = field(default_factory=dict)

    def stable(self) -> list[bytes]:
        found = []
        for _, value, number in self.rows:
            fate = True if number is None else self.fates[number]
            if fate is None:
                break
            if fate:
                found.append(value)
        return found


@pytest.mark.parametrize("seed", range(12))
def test_any_interleaving_reads_as_its_transactions_ended_also_after_crashes(home: Home, seed: int) -> None:
    dice, model = random.Random(seed), Model()
    sequences: dict[int, int] = dict.fromkeys(range(4), 0)
    current: dict[int, int] = {}
    store, log = opened(home, segment_bytes="400")
    for step in range(150):
        producer, what = dice.randrange(4), dice.random()
        if what < 0.6:
            values = [b"%d-%d" % (step, each) for each in range(dice.randrange(1, 4))]
            number = current.setdefault(producer, step)
            model.fates.setdefault(number, None)
            (base,) = append(log, sent(producer, sequences[producer], *values))
            sequences[producer] += len(values)
            model.rows += [(base + row, value, number) for row, value in enumerate(values)]
        elif what < 0.7:
            (base,) = append(log, batch([b"plain"]))
            model.rows.append((base, b"plain", None))
        elif producer in current:
            commit = dice.random() < 0.5
            append(log, marker(producer, commit=commit))
            model.fates[current.pop(producer)] = commit
        if dice.random() < 0.04:
            home = home.crash()
            store, log = opened(home)
        elif dice.random() < 0.04:
            store.close()
            store, log = opened(home)
    assert visible(log) == model.stable()
    for producer, number in list(current.items()):
        append(log, marker(producer, commit=True))
        model.fates[number] = True
    assert log.stable_offset == log.end_offset
    assert visible(log) == model.stable()


def test_a_marker_is_what_kafka_writes() -> None:
    """A COMMIT marker from the log of a real broker (4.3.1), of producer 14 in epoch 1, at 1795224613610."""
    data = marker_bytes()
    assert end_marker(14, 1, commit=True, coordinator_epoch=0, now_ms=1_795_224_613_610)[16:] == data[16:]
    assert control_type(data[61:]) == COMMIT
    assert control_type(end_marker(1, 0, commit=False, coordinator_epoch=9, now_ms=0)[61:]) == ABORT
    with pytest.raises(CorruptBatch):
        control_type(data[61:64])


def marker_bytes() -> bytes:
    data = (DATA / "segment-4.3-transactions-0.bin").read_bytes()
    header = next(header for header in batches(data) if header.control)
    return data[header.position : header.end]


def test_the_index_of_aborted_transactions_by_itself() -> None:
    index = AbortedIndex()
    entries = [Aborted(1, 0, 5, 2), Aborted(2, 2, 7, 8), Aborted(1, 9, 10, 11)]
    for entry in entries:
        index.add(entry)
    assert index.within(0, 1) == entries[:1]
    assert index.within(6, 8) == entries[1:2]
    assert index.within(0, 99) == entries
    assert index.marked(6, 11) == entries[1:]
    assert list(from_bytes(to_bytes(entries), 0, 11)) == entries
    for wrong in ((0, 10), (6, 11)):
        with pytest.raises(ValueError, match="cannot be in the index"):
            list(from_bytes(to_bytes(entries), *wrong))
    index.cut_start(6)
    assert len(index) == 2
