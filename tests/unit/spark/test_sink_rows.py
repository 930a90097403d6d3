"""From Spark's batches to a producer's: topics apart, order kept, ids behind the headers a row has."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.records.arrow import HEADERS_TYPE
from penstock.records.encoding import encode_v2
from penstock.spark._sink_rows import ROW_HEADER, RowIds, by_topic, check_columns, with_row_ids

ROWS = check_columns([("value", "binary"), ("topic", "string")], topic=None)


def rows(topics: list[str | None]) -> pa.RecordBatch:
    values = [str(number).encode() for number in range(len(topics))]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary()), pa.array(topics, pa.string())], ["value", "topic"]
    )


@given(st.lists(st.sampled_from(["a", "b", "c"])), st.integers(0, 3))
def test_no_row_is_lost_and_order_is_kept(topics: list[str | None], skipped: int) -> None:
    batch = rows(topics).slice(min(skipped, len(topics)))
    found = {topic: part.column("value").to_pylist() for topic, part in by_topic(batch, ROWS, None)}
    expected: dict[str, list[bytes]] = {}
    for row in batch.to_pylist():
        expected.setdefault(row["topic"], []).append(row["value"])
    assert found == expected


@pytest.mark.parametrize("topics", [["a", None], ["a", ""]])
def test_row_without_a_topic_is_refused(topics: list[str | None]) -> None:
    with pytest.raises(UsageError, match="row 1 of a batch has no topic"):
        list(by_topic(rows(topics), ROWS, None))


def test_topic_for_all_rows_wins() -> None:
    columns = check_columns([("value", "binary"), ("topic", "string")], topic="all")
    [(topic, part)] = by_topic(rows(["a", None]), columns, "all")
    assert (topic, part.num_rows, part.schema.names) == ("all", 2, ["value"])


def test_columns_of_nulls_only_are_left_out_but_for_the_value() -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(2), pa.nulls(2), pa.nulls(2)], ["key", "value", "timestamp"])
    columns = check_columns([("key", "void"), ("value", "void"), ("timestamp", "void")], topic="t")
    [(_, part)] = by_topic(batch, columns, "t")
    assert part.to_pydict() == {"value": [None, None]}
    encode_v2(part)


HEADERS = st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.binary(max_size=3)), max_size=3)


@given(st.lists(HEADERS, min_size=1), st.integers(0, 2), st.booleans())
def test_ids_follow_the_headers_a_row_has(given_headers: list[object], skipped: int, with_headers: bool) -> None:
    count = len(given_headers)
    trees = [
        None if each is None else [dict(zip(("key", "value"), pair, strict=True)) for pair in each]
        for each in given_headers
    ]  # type: ignore[attr-defined]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b""] * count, pa.binary()), pa.array(trees, HEADERS_TYPE)], ["value", "headers"]
    ).slice(min(skipped, count - 1))
    if not with_headers:
        batch = batch.select(["value"])
    ids = RowIds("q/3/1", following=5)
    made = with_row_ids(batch, ids)
    made.validate(full=True)
    for number, (before, after) in enumerate(zip(batch.to_pylist(), made.to_pylist(), strict=True)):
        own = {"key": ROW_HEADER, "value": f"q/3/1/{number + 5}".encode()}
        assert after["headers"] == [*(before.get("headers") or []), own]
    assert ids.following == 5 + batch.num_rows
    encode_v2(made)


def test_maps_are_headers_too() -> None:
    headers = pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary()))
    batch = pa.RecordBatch.from_arrays([pa.array([b"", b""]), headers], ["value", "headers"])
    made = with_row_ids(batch, RowIds("p"))
    assert [len(row["headers"]) for row in made.to_pylist()] == [2, 1]
