"""All kernels say the same of any bytes: the same rows, or the same error at the same position."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import kernels
from penstock.errors import PenstockError
from penstock.kernels.interface import BATCH_COLUMNS, SPAN_COLUMNS, Bytes
from penstock.model import Codec
from penstock.records import decode_v2, encode_v2
from penstock.records.batch import crc32c
from penstock.records.compression import compress
from tests.kernels.batches import Written, batch, runs, spoiled_runs
from tests.kernels.ways import same

MANY = settings(max_examples=6 * (settings.default or settings()).max_examples)


def decoded(data: bytes, **options: Any) -> tuple[Any, ...]:
    try:
        found = decode_v2(data, check_crcs=False, **options)
    except PenstockError as error:
        return type(error), str(error)
    found.batch.validate(full=True)
    rows = [column.to_pylist() if column.type != pa.timestamp("us", "UTC") else column.view("int64").to_pylist()
            for column in found.batch.columns]  # fmt: skip
    return rows, found.next_offset, found.consumed


@MANY
@given(runs(), st.integers(0, 1100), st.integers(0, 1100))
def test_good_batches_give_the_same_rows(data: bytes, start: int, stop: int) -> None:
    assert isinstance(same(lambda: decoded(data))[0], list)
    same(lambda: decoded(data, start=start, stop=stop))


@MANY
@given(spoiled_runs())
def test_spoiled_batches_give_the_same_rows_or_the_same_error(data: bytes) -> None:
    same(lambda: decoded(data))


def test_a_large_run_of_many_kinds_of_records_gives_the_same_rows() -> None:
    dice, data, offset = Random(7), b"", 5
    for _ in range(9):
        count = dice.choice([1, 60, 100])
        records = [
            Written(
                key=dice.choice([None, b"", b"k" * dice.randrange(200)]),
                value=dice.choice([None, b"v" * dice.randrange(9_000)]),
                timestamp_delta=dice.choice([0, 1, -1, 10_000, 2**62]),
                offset_delta=number,
                headers=[(b"n", dice.choice([None, b"h" * 70]))] * dice.choice([0, 0, 1, 3, 40]),
            ).encode()
            for number in range(count)
        ]
        data += batch(b"".join(records), count, base_offset=offset)
        offset += count
    rows, next_offset, _ = same(lambda: decoded(data))
    assert (len(rows[0]), next_offset) == (offset - 5, offset)
    same(lambda: decoded(data, start=50, stop=offset - 50))
    spoiled = bytearray(data)
    spoiled[len(data) // 2] ^= 0xFF
    same(lambda: decoded(bytes(spoiled)))


@MANY
@given(st.binary(max_size=200), st.integers(0, 12), st.sampled_from(Codec))
def test_any_bytes_as_records_give_the_same_answer(records: bytes, count: int, codec: Codec) -> None:
    data = batch(bytes(compress(codec, records)), count, last=1000, attributes=codec)
    same(lambda: decoded(data))


@MANY
@given(st.binary(max_size=300))
def test_any_bytes_give_the_same_headers(data: bytes) -> None:
    def scan() -> tuple[Any, ...]:
        table = np.zeros((len(data) // 61 + 1, BATCH_COLUMNS), np.int64)
        found = kernels.load().scan_batches(np.frombuffer(data, np.uint8), 0, len(data), table)
        return tuple(int(number) for number in found), table.tolist()

    same(scan)


@MANY
@given(st.one_of(runs(), spoiled_runs(), st.binary(max_size=300)), st.integers(0, 20), st.integers(0, 20))
def test_the_last_whole_batch_is_found_alike(data: bytes, cut: int, at: int) -> None:
    at, end = min(at, len(data)), max(len(data) - cut, 0)
    found = same(lambda: kernels.load().last_batch(np.frombuffer(data, np.uint8), at, end))
    assert found == -1 or at <= found <= end - 26


@MANY
@given(st.one_of(runs(), spoiled_runs()))
def test_checksums_are_found_right_or_wrong_alike(data: bytes) -> None:
    def check() -> tuple[int, list[int]]:
        array = np.frombuffer(data, np.uint8)
        table = np.zeros((len(data) // 61 + 1, BATCH_COLUMNS), np.int64)
        count = kernels.load().scan_batches(array, 0, len(data), table)[0]
        right = [crc32c(data, row[0] + 21, row[0] + row[1]) == row[9] for row in table[:count].tolist()]
        return kernels.load().check_crcs(array, table[:count]), right

    found, right = same(check)
    assert found == (right.index(False) if False in right else len(right))


@MANY
@given(st.binary(max_size=120), st.integers(0, 9))
def test_any_bytes_are_walked_to_the_same_fault_at_the_same_position(data: bytes, count: int) -> None:
    def walk() -> tuple[Any, ...]:
        spans = np.array([(0, len(data), count, 10, 100, 5, 0, 0)], np.int64)
        assert spans.shape[1] == SPAN_COLUMNS
        places = [np.full(count + 1, -7, np.int32) for _ in range(3)]
        ends = [np.zeros(count + 1, np.int32) for _ in range(3)]
        numbers = [np.zeros(count, np.int64) for _ in range(2)]
        found = kernels.load().walk_records(
            np.frombuffer(data, np.uint8), spans, 0, 0, 0, 2**63 - 1, 31,
            places[0], ends[0], places[1], ends[1], numbers[0], numbers[1], places[2], ends[2],
        )  # fmt: skip
        arrays: list[Any] = [*places, *ends, *numbers]
        return tuple(int(number) for number in found), [array.tolist() for array in arrays], spans.tolist()

    same(walk)


@MANY
@given(st.binary(max_size=90), st.lists(st.tuples(st.integers(0, 90), st.integers(0, 40)), max_size=6))
def test_pieces_are_gathered_alike_up_to_the_last_byte(data: bytes, pieces: list[tuple[int, int]]) -> None:
    pieces = [(min(at, len(data)), min(length, len(data) - min(at, len(data)))) for at, length in pieces]
    ends = np.cumsum([0, *(length for _, length in pieces)]).astype(np.int32)

    def gather() -> bytes:
        out: Bytes = np.zeros(int(ends[-1]) + 32, np.uint8)
        at = np.array([at for at, _ in pieces], np.int32)
        array = np.frombuffer(data, np.uint8)
        kernels.load().gather(array, at, ends, 0, len(pieces), out)
        of_its_own = kernels.load().gathered(array, at, ends, 0, len(pieces))
        assert of_its_own is None or of_its_own.tobytes() == out[: ends[-1]].tobytes()
        return out[: ends[-1]].tobytes()

    assert same(gather) == b"".join(data[at : at + length] for at, length in pieces)


@MANY
@given(runs())
def test_records_are_encoded_to_the_same_bytes(data: bytes) -> None:
    rows = decode_v2(data).batch
    if rows.num_rows:
        same(lambda: bytes(encode_v2(rows)))
