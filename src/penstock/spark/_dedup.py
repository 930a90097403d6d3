"""When reading, drops rows that a query wrote twice to a log without transactions (the sink's dedupHeaders=true).

Such rows carry the header ``penstock.row``: "query/batch/task/number", which is the same when a batch is rerun with the
same division into tasks. With another division the id may be that of a different row, so a row counts as repeated only
if its key and value are the same too: nothing is dropped that was not written before, and rows that moved to another
task stay twice. What must not live here: writing these headers (``_sink_rows``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import UsageError
from penstock.spark._sink_rows import ROW_HEADER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Deduplicator", "drop_repeated"]

_Seen = dict[bytes, set[tuple[bytes, bytes | None, bytes | None]]]


class Deduplicator:
    """Drops rows it has seen before. Rows must come in the order of their partition, or of partitions read together.

    A batch can be repeated only until the next one begins, so the last ``batches`` of each query are remembered and
    older ones forgotten. Rows with a key are repeated in their own partition, rows without one in any: for those, let
    one Deduplicator see all partitions.

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

    ``watermark`` bounds what a stream remembers, by the column timestamp: "1 hour" is longer than any restart takes.
    Without it a stream remembers every row for ever. Where partitions belong to brokers (TubeMQ, RocketMQ) keep the
    column node in the frame, as it is by default: without it rows of two brokers can be taken for one.
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
            # Anybody may write such a header; one in another form is not ours.
            ids[row] = row_id if row_id is not None and _is_id(row_id) else None
        found += ids
    return found


def _is_id(row_id: bytes) -> bool:
    parts = row_id.split(b"/")
    return len(parts) == 4 and all(part.isdigit() for part in parts[1:])
