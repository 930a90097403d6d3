"""Ranges, damage, aborted transactions, limits and odd timestamps when a run of batches is decoded."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptBatch, UsageError
from penstock.model import Codec
from penstock.protocols.kafka.wire.records import decode
from penstock.records import decode_v2
from penstock.records.batch import AbortedTransactions
from penstock.records.compression import compress
from tests.kernels.batches import Written, batch

TRANSACTIONAL, CONTROL = 16, 32


def filled(base: int, count: int, *, codec: Codec = Codec.NONE, attributes: int = 0, producer: int = -1) -> bytes:
    records = b"".join(Written(b"k%d" % (base + n), b"v" * n, n, n).encode() for n in range(count))
    packed = bytes(compress(codec, records))
    return batch(packed, count, base_offset=base, attributes=attributes | codec, producer_id=producer)


def marker(offset: int, kind: int, producer: int) -> bytes:
    record = Written(bytes([0, 0, 0, kind]), bytes(6)).encode()
    return batch(record, 1, base_offset=offset, attributes=TRANSACTIONAL | CONTROL, producer_id=producer)


def offsets(data: bytes, **options: object) -> list[int]:
    found: list[int] = decode_v2(data, **options).batch.column("offset").to_pylist()  # type: ignore[arg-type]
    return found


RUN = filled(10, 5) + filled(15, 5, codec=Codec.LZ4) + filled(30, 5) + filled(35, 5, codec=Codec.ZSTD)


@pytest.mark.parametrize("start", range(8, 42))
def test_a_range_has_its_records_and_the_next_offset(start: int) -> None:
    everything = [*range(10, 20), *range(30, 40)]
    assert offsets(RUN) == everything
    for stop in range(start, 44, 5):
        found = decode_v2(RUN, start=start, stop=stop)
        expected = [offset for offset in everything if start <= offset < stop]
        assert found.batch.column("offset").to_pylist() == expected
        assert found.batch.column("key").to_pylist() == [b"k%d" % offset for offset in expected]
        assert start <= found.next_offset <= stop
        assert not [offset for offset in everything if found.next_offset <= offset < stop]


def test_batches_out_of_range_are_not_even_checked() -> None:
    spoiled = bytearray(RUN)
    spoiled[70] ^= 1
    assert offsets(spoiled, start=15) == [*range(15, 20), *range(30, 40)]
    spoiled = bytearray(RUN)
    spoiled[-1] ^= 1
    assert offsets(spoiled, stop=35) == [*range(10, 20), *range(30, 35)]


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_records_before_damage_are_returned_and_the_next_read_raises(bad: int) -> None:
    parts = [filled(10, 5), filled(15, 5, codec=Codec.LZ4), filled(30, 5), filled(35, 5, codec=Codec.ZSTD)]
    spoiled = bytearray(parts[bad])
    spoiled[-1] ^= 1
    data = b"".join([*parts[:bad], spoiled, *parts[bad + 1 :]])
    base = (10, 15, 30, 35)[bad]
    if bad:
        found = decode_v2(data)
        assert (found.next_offset, found.consumed) == ((10, 15, 20, 35)[bad], sum(map(len, parts[:bad])))
        assert found.batch.column("offset").to_pylist() == [n for n in [*range(10, 20), *range(30, 40)] if n < base]
    with pytest.raises(CorruptBatch, match="checksum") as raised:
        decode_v2(data, start=base)
    assert raised.value.offset == base
    assert "seek past it" in str(raised.value)


def test_a_record_that_lies_ends_the_run_before_its_batch() -> None:
    liar = batch(Written(b"k", b"v").encode() + Written(b"k", b"v", 0, 9).encode(), 2, base_offset=15)
    found = decode_v2(filled(10, 5) + liar)
    assert (found.batch.num_rows, found.next_offset, found.consumed) == (5, 15, len(filled(10, 5)))
    with pytest.raises(CorruptBatch, match="offset delta is not one of the batch, at byte 73") as raised:
        decode_v2(liar)
    assert raised.value.offset == 15


def test_positions_in_compressed_batches_count_from_their_records() -> None:
    liar = batch(bytes(compress(Codec.GZIP, b"\x0e" + bytes(6) + b"\x02")), 1, attributes=Codec.GZIP)
    with pytest.raises(CorruptBatch, match="at byte 7 of the inflated records"):
        decode_v2(liar)


def test_a_count_that_lies_allocates_nothing() -> None:
    with pytest.raises(CorruptBatch, match="2147483647 records do not fit into 16 bytes"):
        decode_v2(batch(bytes(16), 2**31 - 1))


def test_control_batches_are_passed_over() -> None:
    data = filled(0, 2, attributes=TRANSACTIONAL, producer=4) + marker(2, 1, 4)
    found = decode_v2(data)
    assert (found.batch.num_rows, found.next_offset) == (2, 3)
    assert decode_v2(data, start=2).next_offset == 3


def test_aborted_transactions_of_interleaved_producers_are_left_out() -> None:
    data = b"".join(
        [
            filled(0, 2, attributes=TRANSACTIONAL, producer=1),  # aborted
            filled(2, 2, attributes=TRANSACTIONAL, producer=2),  # committed
            filled(4, 2, attributes=0, producer=1),  # not transactional
            filled(6, 1, attributes=TRANSACTIONAL, producer=1),  # aborted
            marker(7, 0, 1),
            filled(8, 1, attributes=TRANSACTIONAL, producer=1),  # the next transaction, committed
            marker(9, 1, 2),
            filled(10, 1, attributes=TRANSACTIONAL, producer=2),  # aborted
            marker(11, 0, 2),
            marker(12, 1, 1),
        ]
    )
    aborted = [(2, 10), (1, 0)]
    assert offsets(data, aborted=aborted) == [2, 3, 4, 5, 8]
    assert offsets(data) == [0, 1, 2, 3, 4, 5, 6, 8, 10]
    assert decode_v2(data, aborted=aborted).next_offset == 13


def test_a_run_may_be_read_in_pieces_with_one_memory_of_what_is_aborted() -> None:
    first = filled(0, 2, attributes=TRANSACTIONAL, producer=1) + marker(2, 0, 1)
    second = filled(3, 2, attributes=TRANSACTIONAL, producer=1)
    memory = AbortedTransactions([(1, 0)])
    assert offsets(first, aborted=memory) == []
    assert offsets(second, aborted=memory) == [3, 4]


def test_a_call_stops_after_inflating_its_fill_and_the_next_goes_on() -> None:
    data = b"".join(filled(base, 100, codec=Codec.ZSTD) for base in range(0, 1000, 100))
    read: list[int] = []
    position = offset = calls = 0
    while position < len(data):
        found = decode_v2(data, position=position, start=offset, max_inflated_bytes=10_000)
        read += found.batch.column("offset").to_pylist()
        position, offset, calls = found.consumed, found.next_offset, calls + 1
    assert read == list(range(1000))
    assert calls > 3


def test_a_batch_above_the_limit_is_an_error_with_its_offset() -> None:
    with pytest.raises(CorruptBatch, match="inflates to more than 100 bytes") as raised:
        decode_v2(filled(7, 100, codec=Codec.ZSTD), max_inflated_bytes=100)
    assert raised.value.offset == 7


@pytest.mark.parametrize(
    ("base", "delta", "microseconds"),
    [
        (-1, 0, -1000),
        (1_700_000_000_000, -5, 1_699_999_999_995_000),
        (2**62, 0, 9223372036854775000),
        (-(2**62), -5, -9223372036854775000),
        (2**63 - 1, 1, -9223372036854775000),  # wraps, as Java's addition does
    ],
)
def test_timestamps_that_microseconds_cannot_hold_saturate(base: int, delta: int, microseconds: int) -> None:
    data = batch(Written(b"", b"", delta).encode(), 1, base_timestamp=base)
    found = decode_v2(data).batch.column("timestamp").view(pa.int64()).to_pylist()
    assert found == [microseconds]


def test_header_names_that_are_not_utf8_are_readable() -> None:
    data = batch(Written(b"", b"", headers=[(b"\xff\xfe", b"1"), (b"ok", None)]).encode(), 1)
    assert decode_v2(data).batch.column("headers").to_pylist() == [
        [{"key": "\ufffd\ufffd", "value": b"1"}, {"key": "ok", "value": None}]
    ]


def test_all_columns_have_sparks_types_and_are_nullable() -> None:
    schema = decode_v2(RUN).batch.schema
    assert str(schema.field("headers").type) == "list<element: struct<key: string, value: binary>>"
    assert [str(field.type) for field in schema][:5] == [
        "binary", "binary", "int64", "timestamp[us, tz=UTC]", "int32",
    ]  # fmt: skip
    assert all(field.nullable for field in schema)


def test_nothing_decodes_to_no_rows() -> None:
    for data in (b"", bytes(16), RUN[:60]):
        found = decode_v2(data, start=5)
        assert (found.batch.num_rows, found.next_offset, found.consumed) == (0, 5, 0)


def test_an_unknown_column_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no column 'keys'"):
        decode_v2(RUN, columns=["keys"])


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, pa.py_buffer, lambda data: np.frombuffer(data, np.uint8)]
)
def test_any_buffer_can_be_decoded(wrap: object) -> None:
    assert offsets(wrap(RUN)) == offsets(RUN)  # type: ignore[operator]


def test_columns_outlive_the_buffer_they_came_from() -> None:
    data = bytearray(RUN)
    found = decode_v2(data).batch
    expected = found.to_pylist()
    data[:] = bytes(len(data))
    assert found.to_pylist() == expected


@pytest.mark.parametrize("spoil", [None, 0, 1, 2, "crowded"])
@pytest.mark.parametrize(("start", "stop"), [(0, 99), (12, 99), (17, 99), (0, 14), (0, 20), (20, 22), (31, 33)])
def test_plain_runs_are_chosen_as_batch_by_batch(spoil: int | str | None, start: int, stop: int) -> None:
    parts = [bytearray(filled(10, 5)), bytearray(filled(15, 5)), bytearray(filled(30, 5))]
    parts += [bytearray(filled(base, 2)) for base in range(40, 60, 2)]  # few batches never count as a run
    if spoil == "crowded":
        parts[1] = bytearray(batch(bytes(20), 3, base_offset=15, last=4))
    elif isinstance(spoil, int):
        parts[spoil][-1] ^= 1

    def answer(**options: object) -> object:
        try:
            found = decode_v2(b"".join(parts), start=start, stop=stop, **options)  # type: ignore[arg-type]
        except CorruptBatch as error:
            return str(error)
        return found.batch.to_pylist(), found.next_offset, found.consumed

    # With a list of aborted transactions, even an empty one, batches are looked at one by one.
    assert answer() == answer(aborted=[])
    assert answer(check_crcs=False) == answer(aborted=[], check_crcs=False)


@pytest.mark.parametrize("position", [-1, -(2**40), len(RUN) + 1])
def test_a_position_outside_the_buffer_is_a_usage_error(position: int) -> None:
    for read in (decode_v2, decode):
        with pytest.raises(UsageError, match="outside a buffer"):
            read(RUN, position=position)


def test_bounds_beyond_64_bits_and_ends_beyond_the_buffer_are_bounds_all_the_same() -> None:
    everything = [*range(10, 20), *range(30, 40)]
    assert offsets(RUN, start=-(2**80), stop=2**80, end=2**80) == everything
    assert offsets(RUN, end=-5) == offsets(RUN, start=2**80) == []
    with pytest.raises(CorruptBatch, match="inflates to more than 1 bytes"):
        decode_v2(RUN, start=15, max_inflated_bytes=0)
