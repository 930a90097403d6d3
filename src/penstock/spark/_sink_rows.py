"""Turns Spark's Arrow batches into what a producer takes: one batch per topic, with the columns to write.

Makes no Python object per row. What must not live here: producers, PySpark, and how columns are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock._dataclasses import dataclass
from penstock.columnar.schema import HEADERS_TYPE
from penstock.errors import UsageError
from penstock.spark._sink_columns import Columns

__all__ = ["ROW_HEADER", "RowIds", "by_topic", "with_row_ids"]

ROW_HEADER = "penstock.row"
"""Header of a row that may be repeated: "<query>/<batch>/<task>/<number in the task>", in ASCII."""


@dataclass(slots=True)
class RowIds:
    """Numbers the rows of one task: ``prefix`` says which task of which batch of which query it is."""

    prefix: str
    following: int = 0

    def take(self, count: int) -> pa.Array:
        """The ids of the next ``count`` rows, as bytes."""
        numbers = pc.cast(_numbers(self.following, count), pa.string())
        self.following += count
        return pc.binary_join_element_wise(pa.scalar(self.prefix), numbers, "/").cast(pa.binary())


def by_topic(batch: pa.RecordBatch, columns: Columns, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """(topic, rows) with the columns a producer knows; rows of one topic keep their order.

    ``topic`` is for all rows if it is given. Raises UsageError for a row whose topic is null or empty.
    """
    if not batch.num_rows:
        return
    named = {name: batch.column(index) for name, index in columns.places}
    topics = named.pop("topic", None)
    # A column of nulls only (Spark's type void) is as good as none, except for the value: that is written as null.
    named = {name: each for name, each in named.items() if not pa.types.is_null(each.type)}
    named.setdefault("value", pa.nulls(batch.num_rows, pa.binary()))
    rows = pa.RecordBatch.from_arrays(list(named.values()), list(named))
    if topic is not None:
        yield topic, rows
        return
    assert topics is not None
    _refuse_no_topic(topics)
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    for place, name in enumerate(names):
        yield name, rows.filter(pc.equal(encoded.indices, place))


def with_row_ids(rows: pa.RecordBatch, ids: RowIds) -> pa.RecordBatch:
    """The same rows, each with the header ``ROW_HEADER`` after its own headers."""
    count = rows.num_rows
    names = pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int8()).fill_null(0), [ROW_HEADER]).cast(pa.string())
    own = pa.StructArray.from_arrays([names, ids.take(count)], names=["key", "value"])
    index = rows.schema.get_field_index("headers")
    if index < 0:
        headers = pa.ListArray.from_arrays(_numbers(0, count + 1).cast(pa.int32()), own)
        return rows.append_column("headers", headers.cast(HEADERS_TYPE))
    given = rows.column(index).cast(HEADERS_TYPE)
    lengths = pc.fill_null(pc.list_value_length(given), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths + 1)])
    # A stable sort by row number puts each row's new header, from the second half, after its given ones.
    of_row = np.concatenate([pc.list_parent_indices(given).to_numpy(), np.arange(count)])
    pairs = pa.concat_arrays([given.flatten(), own.cast(HEADERS_TYPE.value_type)])
    joined = pairs.take(pa.array(np.argsort(of_row, kind="stable")))
    headers = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), joined)
    return rows.set_column(index, "headers", headers.cast(HEADERS_TYPE))


def _numbers(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count, dtype=np.int64))


def _refuse_no_topic(topics: pa.Array) -> None:
    if pa.types.is_null(topics.type):
        topics = topics.cast(pa.string())
    empty = pc.fill_null(pc.equal(pc.binary_length(topics), 0), True)
    if pc.any(empty).as_py():
        raise UsageError(
            f"row {pc.index(empty, True).as_py()} of a batch has no topic",
            hint='Give every row one, or set the option "topic" for all of them',
        )
