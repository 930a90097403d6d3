"""Reading: leaving out rows that a query wrote twice to a log without transactions (the sink's dedupHeaders=true).

Such rows carry the header ``penstock.row``: "query/batch/task/number", which is the same when a batch runs again and is
cut into tasks as before. Where it was cut otherwise, the same id stands on another row: so a row counts as repeated
only if its key and value are the same too, and nothing is ever left out that was not written before; rows that moved to
another task stay there twice. What must not live here: writing these headers (``_sink_rows``).
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
    """Leaves out rows it has seen; for rows in the order a partition, or a group of partitions read together, has them.

    A batch can be repeated only until the next one begins, so the last ``batches`` of each query are remembered and
    older ones forgotten. Rows with a key come back in their own partition; rows without one in any: then let one
    Deduplicator see all partitions.

    >>> known = Deduplicator()
    >>> for messages in reader.read(span):                                       # doctest: +SKIP
    ...     rows = known.first_seen(messages.to_arrow(("key", "value", "headers")))
    """

    def __init__(self, batches: int = 16) -> None:
        if batches < 1:
            raise UsageError(f"batches is {batches}, wanted is at least 1")
        self._batches = batches
        self._queries: dict[bytes, _Seen] = {}

    def first_seen(self, rows: pa.Table) -> pa.Table:
        """The rows of a table with columns key, value and headers that were not seen before, in their order.

        Rows without the header, somebody else's, all stay.
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
    Without it a stream remembers every row for ever.
    """
    from pyspark.sql import functions as f

    if "headers" not in frame.columns:
        raise UsageError("the DataFrame has no column headers", hint="Read it with includeHeaders=true")
    own = f.filter("headers", lambda header: header["key"] == ROW_HEADER)
    place = f.concat_ws("-", "topic", "partition", "offset").cast("binary")
    marked = frame.withColumn("_row", f.coalesce(f.try_element_at(own, f.lit(-1))["value"], place))
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
            # Anybody may write such a header; what is not of our form is not ours.
            ids[row] = row_id if row_id is not None and _is_id(row_id) else None
        found += ids
    return found


def _is_id(row_id: bytes) -> bool:
    parts = row_id.split(b"/")
    return len(parts) == 4 and all(part.isdigit() for part in parts[1:])
