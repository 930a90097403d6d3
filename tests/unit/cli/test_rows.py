"""Rows of a file become the JSON objects that they would become one by one."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.rows import _as_json, _plain

COLUMNS = st.one_of(
    *(
        st.tuples(st.lists(st.none() | cells, min_size=5, max_size=5), st.just(kind))
        for kind, cells in {
            pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
            pa.uint8(): st.integers(0, 255),
            pa.bool_(): st.booleans(),
            pa.float64(): st.floats(),
            pa.float32(): st.floats(width=32),
            pa.float16(): st.floats(width=16),
            pa.string(): st.text() | st.just('"\\'),
            pa.large_string(): st.text(),
            pa.binary(): st.binary() | st.text().map(str.encode),
            pa.date32(): st.dates(),
            pa.timestamp("us"): st.datetimes(),
            pa.list_(pa.int64()): st.lists(st.integers(0, 9)),
        }.items()
    )
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", 'c"', "ü"]), COLUMNS), min_size=1, max_size=4))
def test_rows_by_columns_are_the_rows_one_by_one(given: list[tuple[str, tuple[list[object], pa.DataType]]]) -> None:
    columns = [pa.array(cells, kind) for _, (cells, kind) in given]
    table = pa.Table.from_arrays(columns, [name for name, _ in given])
    cells = zip(*(column.to_pylist() for column in columns), strict=True)
    rows = [dict(zip(table.column_names, each, strict=True)) for each in cells]
    assert _as_json(table, "")["value"].to_pylist() == [json.dumps(_plain(row)).encode() for row in rows]
