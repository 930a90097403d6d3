"""Idempotent producers: a resend is answered, a gap is refused, a fenced instance stays out. Pure table."""

import pytest

from penstock.errors import OutOfOrderSequence, StaleProducerEpoch
from penstock.store import log_state as module
from penstock.store.log_state import ProducerTable, SequencedBatch, last_sequence

MAX = 2**31 - 1


def accept(table: ProducerTable, first: int, count: int = 1, *, epoch: int = 0, at: int = 0, now: int = 0) -> None:
    sent = SequencedBatch(7, epoch, first, last_sequence(first, count - 1))
    assert table.check(sent) is None
    table.record(sent, at, at + count - 1, 1_000 + at, now)


def sent(first: int, count: int = 1, *, epoch: int = 0) -> SequencedBatch:
    return SequencedBatch(7, epoch, first, last_sequence(first, count - 1))


def test_a_resent_batch_is_found_with_its_offsets() -> None:
    table = ProducerTable()
    for number in range(5):
        accept(table, number * 10, 10, at=number * 10)
    for number in range(5):
        known = table.check(sent(number * 10, 10))
        assert known is not None
        assert (known.base_offset, known.last_offset, known.timestamp_ms) == (
            number * 10,
            number * 10 + 9,
            1_000 + number * 10,
        )


def test_a_batch_older_than_the_last_five_is_out_of_order() -> None:
    table = ProducerTable()
    for number in range(6):
        accept(table, number, at=number)
    assert table.check(sent(1)) is not None
    with pytest.raises(OutOfOrderSequence):
        table.check(sent(0))


@pytest.mark.parametrize("first", [0, 2, 4, 6, MAX])
def test_a_gap_or_an_overlap_is_out_of_order(first: int) -> None:
    table = ProducerTable()
    accept(table, 0, 5)
    with pytest.raises(OutOfOrderSequence):
        table.check(sent(first))


def test_the_same_first_sequence_with_another_length_is_not_a_duplicate() -> None:
    table = ProducerTable()
    accept(table, 0, 5)
    with pytest.raises(OutOfOrderSequence):
        table.check(sent(0, 4))


def test_an_unknown_producer_may_start_anywhere() -> None:
    accept(ProducerTable(), 7)


def test_an_unknown_producer_starts_a_transaction_of_the_second_version_at_zero() -> None:
    table = ProducerTable()
    with pytest.raises(OutOfOrderSequence, match="batches of its transaction before it are not in this partition"):
        table.check(sent(7), transaction_v2=True)
    accept(table, 0, 7)
    assert table.check(sent(7), transaction_v2=True) is None


def test_an_older_epoch_is_fenced_even_if_it_repeats_itself() -> None:
    table = ProducerTable()
    accept(table, 0, epoch=3)
    accept(table, 0, epoch=4)
    with pytest.raises(StaleProducerEpoch):
        table.check(sent(0, epoch=3))


def test_a_newer_epoch_must_start_at_zero() -> None:
    table = ProducerTable()
    accept(table, 0, 10, epoch=0)
    with pytest.raises(OutOfOrderSequence):
        table.check(sent(10, epoch=1))
    accept(table, 0, epoch=1)


def test_sequences_wrap_after_the_largest_int() -> None:
    table = ProducerTable()
    accept(table, MAX - 1, 2)
    accept(table, 0, 5)
    table = ProducerTable()
    accept(table, MAX - 1, 5)
    assert table.check(sent(MAX - 1, 5)) is not None
    with pytest.raises(OutOfOrderSequence):
        table.check(sent(MAX))
    accept(table, 3)


def test_a_snapshot_restores_everything() -> None:
    table = ProducerTable()
    for number in range(7):
        accept(table, number, at=number, now=50)
    restored = ProducerTable()
    restored.restore(table.snapshot())
    assert restored.snapshot() == table.snapshot()
    assert restored.check(sent(6)) is not None
    with pytest.raises(OutOfOrderSequence):
        restored.check(sent(1))
    accept(restored, 7)


@pytest.mark.parametrize(
    "rows", [[[1]], [[1, 2, 3]], [[1, 2, 3, 4, 5]], [["a", 0, 0, 1, 1, 1, 1, 1]], [[1, 2, 3, *"abcde"]]]
)
def test_a_damaged_snapshot_is_a_value_error_and_changes_nothing(rows: list[list[int]]) -> None:
    table = ProducerTable()
    accept(table, 0)
    before = table.snapshot()
    with pytest.raises(ValueError):
        table.restore(rows)
    assert table.snapshot() == before


def test_a_quiet_producer_is_forgotten() -> None:
    table = ProducerTable()
    accept(table, 0, now=100)
    assert table.expire(100) == 0
    assert table.expire(101) == 1
    accept(table, 55)


def test_the_number_of_producers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PRODUCERS", 3)
    table = ProducerTable()
    for producer in (1, 2, 3, 1, 4):
        first = 1 if producer == 1 and len(table) == 3 else 0
        table.record(SequencedBatch(producer, 0, first, first), 0, 0, 0, 0)
    assert {row[0] for row in table.snapshot()} == {3, 1, 4}
