"""A handful of records read one by one is what the same bytes give as columns; of what is odd they say nothing."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model import Codec, Partition
from penstock.records import Messages, Producing, decode_v2
from penstock.records.batch import CRC_START, HEADER_BYTES, crc32c, stamp, stamp_append_time
from penstock.records.message_columns import batch_of
from penstock.records.scalar_reader import _MOST_BYTES, read_few
from tests.property.records.strategies import Sent, batches, builder_of

PLACE = Partition("t", 3)


def run_of(runs: list[list[Sent]], base: int, *, append_time: bool) -> bytearray:
    """Batches one behind the other, as a fetch brings them."""
    out = bytearray()
    for rows in runs:
        data = builder_of(rows).build(Codec.NONE, Producing(7, 3, 11))
        stamp(data, base, 5)
        if append_time:
            stamp_append_time(data, 1_700_000_000_000)
        out += data
        base += len(rows)
    return out


def mended(data: bytearray) -> None:
    """The checksum of the first batch as its bytes want it, so that what is inside is looked at."""
    (length,) = struct.unpack_from(">i", data, 8)
    end = min(max(length + 12, HEADER_BYTES), len(data))
    struct.pack_into(">I", data, 17, crc32c(bytes(data[:end]), CRC_START))


def same(data: bytes, start: int, stop: int | None) -> bool:
    """Whether it was read; if so, as columns are."""
    few = read_few(data, PLACE, start=start, stop=stop)
    if few is None:
        return False
    whole = decode_v2(data, start=start, stop=stop)
    columns = Messages.of(PLACE, whole.batch, whole.next_offset)
    records = Messages.of_records(PLACE, *few)
    assert list(records) == list(columns)
    assert few[1] == whole.next_offset
    assert records.to_arrow().equals(columns.to_arrow())
    assert batch_of(few[0]).equals(whole.batch)
    return True


@given(
    st.lists(batches, min_size=1, max_size=3),
    st.integers(0, 2**40),
    st.integers(-2, 40),
    st.one_of(st.none(), st.integers(-2, 40)),
    st.booleans(),
)
def test_they_are_the_same(runs: list[list[Sent]], base: int, after: int, until: int | None, append_time: bool) -> None:
    data = bytes(run_of(runs, base, append_time=append_time))
    stop = None if until is None else max(base + until, 0)
    read = same(data, max(base + after, 0), stop)
    few = sum(map(len, runs)) <= 32 and len(data) <= _MOST_BYTES
    plain = all(-1 <= row.timestamp_ms < 2**52 for rows in runs for row in rows)
    if few and plain:
        assert read or (stop is not None and stop <= base)


@given(batches, st.data())
@example([Sent(b"k", b"v", 1, [("h", None)])], None)
def test_odd_bytes_are_left_to_columns_or_read_alike(rows: list[Sent], data: st.DataObject | None) -> None:
    spoilt = run_of([rows], 10, append_time=False)
    if data is not None:
        for _ in range(data.draw(st.integers(1, 3))):
            spoilt[data.draw(st.integers(16, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
        spoilt = spoilt[: data.draw(st.integers(len(spoilt) // 2, len(spoilt)))]
    mended(spoilt)
    same(bytes(spoilt), 10, None)


@given(batches, st.integers(0, 31), st.integers(0, 31))
def test_a_slice_is_a_slice(rows: list[Sent], first: int, last: int) -> None:
    few = read_few(bytes(run_of([rows], 4, append_time=False)), PLACE, start=4)
    if few is None:
        return
    records = Messages.of_records(PLACE, *few)
    columns = Messages.of(PLACE, batch_of(few[0]), few[1])
    assert list(records[first:last]) == list(columns[first:last])
    assert records[first:last].next_offsets == columns[first:last].next_offsets
    assert records[first:last].first_offsets == columns[first:last].first_offsets


SIZES = st.sampled_from([None, 0, 1, 62, 63, 64, 65, 100, 8_190, 8_191, 8_192])


@given(SIZES, SIZES, st.integers(0, 2**40), st.integers(-1, 1), st.data())
def test_a_record_that_is_alone_is_read_as_columns_are_whatever_its_length_takes(
    key: int | None, value: int | None, base: int, start: int, data: st.DataObject
) -> None:
    sent = Sent(None if key is None else b"k" * key, None if value is None else b"v" * value, 1_700_000_000_000, [])
    run = run_of([[sent]], base, append_time=False)
    assert same(bytes(run), base + start, None) is (len(run) <= _MOST_BYTES)
    at = data.draw(st.sampled_from([*range(HEADER_BYTES + 12), len(run) - 1]))
    run[min(at, len(run) - 1)] = data.draw(st.integers(0, 255))
    mended(run)
    same(bytes(run), base + start, None)
