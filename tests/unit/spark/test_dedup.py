"""Leaving out rows that were written twice, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.records.arrow import HEADERS_TYPE
from penstock.spark import Deduplicator

Row = tuple[str, str | None]


def table(*rows: Row) -> pa.Table:
    """(value, row id) each; the id None: no header at all."""
    headers = [
        [{"key": "other", "value": b"q/0/0/0"}, {"key": "penstock.row", "value": row_id.encode()}]
        if row_id is not None
        else []
        for _, row_id in rows
    ]
    values = [value.encode() for value, _ in rows]
    return pa.table(
        {
            "key": pa.array([b"k"] * len(rows), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, HEADERS_TYPE),
        }
    )


def seen(known: Deduplicator, *rows: Row) -> list[str]:
    return [value.decode() for value in known.first_seen(table(*rows)).column("value").to_pylist()]


def test_repeated_batch_is_left_out_across_tables() -> None:
    known = Deduplicator()
    assert seen(known, ("a", "q/0/0/0"), ("b", "q/0/0/1"), ("c", "q/1/0/0")) == ["a", "b", "c"]
    assert seen(known, ("c", "q/1/0/0"), ("d", "q/1/0/1"), ("c", "q/1/0/0")) == ["d"]


def test_same_row_of_another_query_task_or_number_stays() -> None:
    rows = [("a", "q/0/0/0"), ("a", "r/0/0/0"), ("a", "q/0/1/0"), ("a", "q/0/0/1")]
    assert seen(Deduplicator(), *rows) == ["a"] * 4


def test_id_that_stands_on_another_row_after_a_new_cut_leaves_nothing_out() -> None:
    assert seen(Deduplicator(), ("a", "q/0/0/0"), ("b", "q/0/0/0")) == ["a", "b"]


@pytest.mark.parametrize("row_id", [None, "", "q", "q/0/0", "q/x/0/0", "q/0/0/-1"])
def test_rows_of_others_all_stay(row_id: str | None) -> None:
    assert seen(Deduplicator(), ("a", row_id), ("a", row_id)) == ["a", "a"]


def test_memory_is_bounded_to_the_newest_batches() -> None:
    known = Deduplicator(batches=2)
    for batch in range(9, 12):
        assert seen(known, ("a", f"q/{batch}/0/0")) == ["a"]
    assert seen(known, ("a", "q/10/0/0"), ("a", "q/11/0/0")) == []
    assert len(known._queries[b"q"]) == 2


def test_columns_are_needed() -> None:
    with pytest.raises(UsageError, match="no column headers"):
        Deduplicator().first_seen(table(("a", None)).drop(["headers"]))
    with pytest.raises(UsageError, match="batches is 0"):
        Deduplicator(0)
