"""Varints read many at a time are those that are read one by one: of any size, cut off, at the edge of the data."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels._pure.records import read_varint, read_varints
from tests.kernels.batches import varint

MANY = settings(max_examples=6 * (settings.default or settings()).max_examples)


def agree(data: bytes, places: list[int]) -> None:
    values, after = (each.tolist() for each in read_varints(np.frombuffer(data, np.uint8), np.array(places, np.int64)))
    for place, value, end in zip(places, values, after, strict=True):
        expected, expected_end = read_varint(data, place, len(data))
        if expected_end < 0:
            assert end > len(data), place
        else:
            assert (value, end) == (expected, expected_end), place


@MANY
@given(st.binary(min_size=2, max_size=40))
def test_at_every_byte_of_any_bytes(data: bytes) -> None:
    agree(data, list(range(len(data))))


@MANY
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=9))
def test_numbers_of_64_bits(numbers: list[int]) -> None:
    data, places = b"", []
    for number in numbers:
        places.append(len(data))
        data += varint(number)
    values, after = read_varints(np.frombuffer(data, np.uint8), np.array(places))
    assert values.tolist() == numbers
    assert after.tolist() == [*places[1:], len(data)]


def test_all_of_one_and_two_bytes_and_their_neighbours() -> None:
    every = np.arange(1 << 16, dtype="<u2").view(np.uint8)
    agree(every.tobytes() + b"\x01", list(range(0, 1 << 17, 2)))


def test_more_bytes_than_the_value_needs_mean_the_same() -> None:
    for size in range(2, 11):
        data = b"\x8e" + b"\x80" * (size - 2) + b"\0"
        agree(data, [0])
        assert read_varint(data, 0, size) == (7, size)


def test_no_place_outside_the_data_is_an_error() -> None:
    dice, data = Random(3), np.frombuffer(bytes(range(250, 256)) + b"\x07", np.uint8)
    places = [dice.choice([-(2**63), -1, 6, 7, 8, 1 << 40, 2**63 - 1, 0]) for _ in range(100)]
    values, after = read_varints(data, np.array(places))
    for place, value, end in zip(places, values.tolist(), after.tolist(), strict=True):
        if place == 6:
            assert (value, end) == (-4, 7)
