"""The quick walk over a batch's records says what a reader of one field after the other says, or both refuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptBatch
from penstock.records.validation import record_heads, walk_records
from tests.unit.kafka_front.kit import record

SIZES = st.sampled_from([0, 1, 10, 55, 56, 57, 58, 59, 60, 90, 100, 8_180, 8_185, 8_190, 8_200])
TIMES = st.one_of(st.integers(-3, 3), st.integers(-70, 200), st.integers(-(2**40), 2**40))


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Records as producers write them: runs of one size or one time, and places that are mostly right."""
    records: list[bytes] = []
    for _ in range(draw(st.integers(1, 6))):
        size, time = draw(SIZES), draw(TIMES)
        step, varied = draw(st.sampled_from([0, 0, 1, 60])), draw(st.booleans())
        for row in range(draw(st.sampled_from([1, 2, 9, 63, 64, 65, 130]))):
            value = bytes(size + (row * 7 % 5 if varied else 0))
            records.append(record(len(records), None if row % 3 else b"k", value, time + step * row))
    if draw(st.integers(0, 9)) == 0:
        row = draw(st.integers(0, len(records) - 1))
        records[row] = record(draw(st.sampled_from([row + 1, row - 1, row + 64, 0])), None, b"")
    return b"".join(records)


def walked(data: bytes, count: int) -> tuple[int, int] | None:
    try:
        return tuple(walk_records(data, count))
    except CorruptBatch:
        return None


def read(data: bytes, count: int) -> tuple[int, int] | None:
    try:
        heads = record_heads(data, count)
    except CorruptBatch:
        return None
    if len(heads) != count or [place for _, place, _ in heads] != list(range(count)):
        return None
    times = [time for time, _, _ in heads]
    return min(times), max(times)


@given(batches(), st.sampled_from([0, 0, 0, 1, -1]))
def test_the_walk_reads_what_is_there(data: bytes, more: int) -> None:
    count = max(1, len(record_heads(data, 1 << 20)) + more)
    assert walked(data, count) == read(data, count)


@given(batches(), st.data())
def test_no_byte_leads_it_astray(data: bytes, draws: st.DataObject) -> None:
    count = len(record_heads(data, 1 << 20))
    changed = bytearray(data)
    for _ in range(draws.draw(st.integers(1, 3))):
        changed[draws.draw(st.integers(0, len(data) - 1))] = draws.draw(st.integers(0, 255))
    cut = bytes(changed[: draws.draw(st.one_of(st.just(len(data)), st.integers(1, len(data))))])
    wanted = read(cut, count)
    assert wanted is None or walked(cut, count) == wanted
    if wanted is None and (found := walked(cut, count)) is not None:  # then it is a key that does not fit
        assert found[0] <= found[1]


@given(st.integers(0, 9_000), TIMES, st.booleans())
def test_a_lone_record_fills_its_batch(size: int, time: int, keyed: bool) -> None:
    lone = record(0, b"k" if keyed else None, bytes(size), time)
    assert walked(lone, 1) == (time, time)
    assert walked(lone + b"\0", 1) is None
    assert walked(lone[:-1], 1) is None
    assert walked(lone, 2) is None
