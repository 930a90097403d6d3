"""Converts rows that are written into batches for a producer: checks columns, one batch per topic, row ids.

It makes no Python object per row. `Deduplicator` and `drop_repeated` drop rows again that were written twice.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from penstock.errors import UsageError
from penstock.records.arrow import HEADERS_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "ROW_HEADER",
    "WRITTEN",
    "Columns",
    "Deduplicator",
    "RowIds",
    "by_topic",
    "check_columns",
    "drop_repeated",
    "with_row_ids",
]


# The columns of written rows: those of Spark's own Kafka sink, and a timestamp. They are checked before any task runs.
class _Expected(Struct, frozen=True):
    """A column's type: in words for users, and as a pattern over Spark's short type names."""

    words: str
    pattern: str
    hint: str


_TEXT = r"binary|string( collate \S+)?|(var)?char\(\d+\)"
_BYTES = _Expected(
    "string or binary", _TEXT, "Serialise it first, for example to_json(struct(…)), or cast it to string"
)
WRITTEN: Mapping[str, _Expected] = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": _Expected(
        "array<struct<key string, value binary>>",
        r"array<struct<key:string,value:(binary|string)>>|map<string,(binary|string)>",
        "Build it with array(struct(lit(NAME) as key, encode(TEXT, 'UTF-8') as value)), or as a map",
    ),
    "topic": _Expected("string", r"string( collate \S+)?|(var)?char\(\d+\)", "Cast it to string"),
    "partition": _Expected("int", "int", "Cast it: col('partition').cast('int')"),
    "timestamp": _Expected(
        "timestamp", "timestamp", "Cast it to timestamp (with a time zone: an instant, not a wall clock)"
    ),
}
"""The columns that are written; only ``value`` is required. Other columns are ignored, as by Spark's own sink."""

_OF_OUR_SOURCE = ("offset", "timestamptype", "node")
_NEAR = 0.8


class Columns(Struct, frozen=True):
    """The positions of the columns to write: (our name, index), in the order of ``WRITTEN``."""

    places: tuple[tuple[str, int], ...]

    def __contains__(self, name: object) -> bool:
        return any(name == each for each, _ in self.places)


def check_columns(fields: Sequence[tuple[str, str]], *, topic: str | None) -> Columns:
    """Find the columns to write. ``fields`` are (name, Spark's short type); ``topic`` is the option's, which wins.

    Case does not matter, as everywhere in Spark. Raises UsageError for a missing value, a type that cannot be written,
    the same column twice, rows without any topic, and a column whose name looks like one of ours misspelt: leaving it
    out would lose data silently.
    """
    found: dict[str, tuple[int, str]] = {}
    for index, (name, kind) in enumerate(fields):
        lower = name.lower()
        if lower in found:
            raise UsageError(f"column {lower} appears twice", hint="Rename or drop one of them")
        if lower in WRITTEN:
            found[lower] = (index, kind)
    for name, kind in fields:
        _refuse_near_miss(name, kind, found)
    if "value" not in found:
        raise UsageError(
            f"column value is missing; the columns are {', '.join(name for name, _ in fields) or 'none'}",
            hint="Name the bytes to write: select(to_json(struct('*')).alias('value'))",
        )
    if topic is None and "topic" not in found:
        raise UsageError(
            "nothing says which topic to write to",
            hint='Set the option "topic", put it into the address (kafka://host:port/topic), or add a column topic',
        )
    wanted = [name for name in WRITTEN if name in found and not (name == "topic" and topic is not None)]
    for name in wanted:
        _check_type(name, found[name][1])
    return Columns(tuple((name, found[name][0]) for name in wanted))


def _check_type(name: str, kind: str) -> None:
    wanted = WRITTEN[name]
    # A column of nulls has the type void, which is allowed: there is nothing to write.
    if kind != "void" and not re.fullmatch(wanted.pattern, kind):
        raise UsageError(f"column {name} is {kind}, expected {wanted.words}", hint=wanted.hint)


def _refuse_near_miss(name: str, kind: str, found: Mapping[str, object]) -> None:
    lower = name.lower()
    if lower in WRITTEN or lower in _OF_OUR_SOURCE:
        return
    near = difflib.get_close_matches(lower, [each for each in WRITTEN if each not in found], n=1, cutoff=_NEAR)
    if near:
        raise UsageError(
            f"column {name} ({kind}) would not be written", hint=f"Did you mean {near[0]}? Else drop or rename it"
        )


ROW_HEADER = "penstock.row"
"""Header of a row that may be repeated: "<query>/<batch>/<task>/<number in the task>", in ASCII."""


class RowIds(Struct):
    """Numbers the rows of one task; ``prefix`` identifies query, batch and task."""

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
    # A column with only nulls (Spark's type void) is treated as missing, except the value, which is written as null.
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
    # A stable sort by row number puts each row's new header, from the second half, after its other ones.
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


# A reader can drop rows that a query wrote twice to a log without transactions (the sink's dedupHeaders=true).
#
# Such rows have the header ``penstock.row``: "query/batch/task/number", which is the same when a batch is rerun with
# the same division into tasks. With another division the id may be that of a different row, so a row counts as repeated
# only if its key and value are the same, too. So no new row is dropped, but rows that moved to another task stay twice.
_Seen = dict[bytes, set[tuple[bytes, bytes | None, bytes | None]]]


class Deduplicator:
    """Drops rows it has seen before. Rows must come in the order of their partition, or of partitions read together.

    A batch can be repeated only until the next one begins, so the last ``batches`` of each query are remembered and
    older ones forgotten. Rows with a key are repeated in their own partition, rows without one in any partition: for
    those, one Deduplicator must see all partitions.

    >>> known = Deduplicator()
    >>> for messages in reader.read(span):                                       # doctest: +SKIP
    ...     rows = known.first_seen(messages.to_arrow(("key", "value", "headers")))
    """

    def __init__(self, batches: int = 16) -> None:
        if batches < 1:
            raise UsageError(f"batches is {batches}, must be at least 1")
        self._batches = batches
        self._queries: dict[bytes, _Seen] = {}

    def first_seen(self, rows: pa.Table) -> pa.Table:
        """The rows of a table with columns key, value and headers that were not seen before, in their order.

        Rows without the header, from other writers, all stay.
        """
        missing = [name for name in ("key", "value", "headers") if name not in rows.schema.names]
        if missing:
            raise UsageError(f"the table has no column {missing[0]}", hint="Read key, value and headers")
        ids = _ids(rows.column("headers"))
        columns = (rows.column(name).to_pylist() for name in ("key", "value"))
        kept = [
            row_id is None or self._is_new(row_id, key, value) for row_id, key, value in zip(ids, *columns, strict=True)
        ]
        return rows.filter(pa.array(kept, pa.bool_()))

    def _is_new(self, row_id: bytes, key: bytes | None, value: bytes | None) -> bool:
        query, batch, _ = row_id.split(b"/", 2)
        batches = self._queries.setdefault(query, {})
        seen = batches.get(batch)
        if seen is None:
            seen = batches[batch] = set()
            if len(batches) > self._batches:
                del batches[min(batches, key=int)]
        before = len(seen)
        seen.add((row_id, key, value))
        return len(seen) > before


def drop_repeated(frame: DataFrame, watermark: str | None = None) -> DataFrame:
    """A DataFrame of our source, with headers (``includeHeaders=true``), without rows that were written twice.

    ``watermark`` limits a stream's state, by the column timestamp: "1 hour" is longer than any restart takes. Without
    it a stream remembers every row for ever. If partitions belong to brokers (TubeMQ, RocketMQ), keep the column node
    in the frame, as it is by default: without it, rows of two brokers can be taken for the same row.
    """
    from pyspark.sql import functions as f

    if "headers" not in frame.columns:
        raise UsageError("the DataFrame has no column headers", hint="Read it with includeHeaders=true")
    own = f.filter("headers", lambda header: header["key"] == ROW_HEADER)
    place = f.concat_ws("-", "topic", "partition", "offset")
    if "node" in frame.columns:  # partitions of several brokers have the same ids and offsets
        place = f.concat_ws("/", place, "node")
    marked = frame.withColumn("_row", f.coalesce(f.try_element_at(own, f.lit(-1))["value"], place.cast("binary")))
    names = ["_row", "key", "value"]
    if watermark is None:
        return marked.dropDuplicates(names).drop("_row")
    return marked.withWatermark("timestamp", watermark).dropDuplicatesWithinWatermark(names).drop("_row")


def _ids(headers: pa.ChunkedArray) -> list[bytes | None]:
    found: list[bytes | None] = []
    for chunk in headers.chunks:
        ids: list[bytes | None] = [None] * len(chunk)
        pairs = chunk.flatten()
        ours = pc.equal(pairs.field("key"), ROW_HEADER)
        rows = pc.list_parent_indices(chunk).filter(ours).to_pylist()
        for row, row_id in zip(rows, pairs.field("value").filter(ours).to_pylist(), strict=True):
            # Other writers may use this header; a value in another form is not ours.
            ids[row] = row_id if row_id is not None and _is_id(row_id) else None
        found += ids
    return found


def _is_id(row_id: bytes) -> bool:
    parts = row_id.split(b"/")
    return len(parts) == 4 and all(part.isdigit() for part in parts[1:])
