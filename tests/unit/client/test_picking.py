"""Rows are picked, and columns looked at, the same way with and without Arrow's functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.producer import routing
from penstock.records.arrow import integers_of, longest, valid_of

ROWS = pa.RecordBatch.from_pydict(
    {"value": pa.array([b"a", None, b"ccc", b"", b"e"]), "partition": pa.array([1, None, 3, 4, 5], pa.int16())}
)


@given(st.lists(st.integers(0, 4), min_size=1))
def test_rows_are_the_same_with_and_without_arrows_functions(order: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "functions_there", lambda: False)
        patch.setattr(routing, "start_import", lambda: None)
        one_by_one = routing.taken(ROWS, np.array(order))
    assert one_by_one.equals(ROWS.take(pa.array(order)))
    patch.setattr(routing, "functions_there", lambda: True)
    assert routing.taken(ROWS, np.array(order)).equals(one_by_one)
    patch.undo()


def test_many_rows_ask_for_arrows_functions_and_few_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(routing, "functions_there", lambda: False)
    monkeypatch.setattr(routing, "start_import", lambda: asked.append(True))
    routing.taken(ROWS, np.zeros(10, np.int64))
    assert not asked
    routing.taken(ROWS, np.zeros(1_000, np.int64))
    assert asked


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
def test_integers_of_every_width_are_read_wherever_a_slice_begins(kind: pa.DataType) -> None:
    column = pa.array([7, None, 9, 100], kind).slice(1)
    assert valid_of(column).tolist() == [0, 1, 1]
    assert integers_of(column)[1:].tolist() == [9, 100]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_string()])
def test_the_longest_value_is_known_without_looking_at_nulls(kind: pa.DataType) -> None:
    column = pa.array(["a", "bb", None, "cccc"], pa.string()).cast(kind)
    assert [longest(column), longest(column.slice(0, 3)), longest(column.slice(2, 1)), longest(column[:0])] == [
        4,
        2,
        0,
        0,
    ]
