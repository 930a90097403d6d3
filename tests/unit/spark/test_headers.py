"""A record without headers has null there, as from Spark's own Kafka source."""

import pyarrow as pa
import pytest

from penstock.records.arrow import HEADERS_TYPE, schema
from penstock.spark._columns import none_as_null

GIVEN = [[("a", b"1")], [], None, [("a", None), ("a", b"")], []]
WANTED = [[("a", b"1")], None, None, [("a", None), ("a", b"")], None]


def batch(rows: list[list[tuple[str, bytes | None]] | None]) -> pa.RecordBatch:
    headers = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    columns = [pa.array(range(len(rows)), pa.int64()), pa.array(headers, HEADERS_TYPE)]
    return pa.RecordBatch.from_arrays(columns, schema=schema(["offset", "headers"]))


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("rows", [0, 1, 3, 5])
def test_none_is_null_in_any_slice(first: int, rows: int) -> None:
    made = none_as_null(batch(GIVEN).slice(first, rows))
    assert made.equals(batch(WANTED).slice(first, rows))
    assert made.schema.equals(schema(["offset", "headers"]))
    made.validate(full=True)


def test_batches_with_nothing_to_change_are_not_touched() -> None:
    full = batch([[("a", b"1")]] * 3)
    assert none_as_null(full) is full
    other = full.select(["offset"])
    assert none_as_null(other) is other
