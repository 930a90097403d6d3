"""What users put in: single records and tables, checked and brought into the columns that senders pack.

A wrong record is refused where it is put in, in the caller's traceback, and never takes a batch of good ones with it.
What must not live here: partitions, memory, time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.client.delivery import Outcome
from penstock.columnar.builder import BatchBuilder, HeadersLike
from penstock.errors import UsageError

__all__ = ["StagedTable", "Staging", "payload", "record_size", "slices"]

_COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition")
_OVERHEAD: Final = 80
"""Bytes of memory and of batch that a record takes beside its key and value, about."""


def payload(name: str, given: object) -> bytes | None:
    """A key or a value as bytes. Raises UsageError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    hint = "Encode text first: text.encode()" if isinstance(given, str) else "Serialise it first"
    raise UsageError(f"{name} is {type(given).__name__}, wanted is bytes or None", hint=hint)


def record_size(key: bytes | None, value: bytes | None, headers: HeadersLike | None) -> int:
    """About what a record weighs. Raises UsageError for headers of another shape."""
    size = _OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    if headers:
        pairs = headers.items() if hasattr(headers, "items") else headers
        for name, content in pairs:
            if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
                raise UsageError(f"header {name!r} is {content!r}", hint="Headers are text to bytes or None")
            if not name.isascii() and not _is_unicode(name):
                raise UsageError(f"header {name!r} has a name that is no Unicode text")
            size += len(name) + len(content or b"") + 16
    return size


def _is_unicode(text: str) -> bool:
    """Half a surrogate pair, as JSON may carry it, is none."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class Staging:
    """Single records of one topic, put in one after the other, until they are given to partitions together."""

    __slots__ = ("_builder", "_partitions", "born", "outcome", "size", "topic")

    def __init__(self, topic: str, outcome: Outcome, born: float) -> None:
        self.topic = topic
        self.outcome = outcome
        self.born = born
        self.size = 0
        self._builder = BatchBuilder()
        self._partitions: dict[int, int] = {}

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: HeadersLike | None,
        partition: int | None,
        size: int,
    ) -> int:
        """Add a record; returns its row."""
        row = len(self._builder)
        self._builder.append(key, value, timestamp_ms, headers)
        if partition is not None:
            self._partitions[row] = partition
        self.size += size
        return row

    def rows(self) -> pa.RecordBatch:
        """The records as columns; with ``partition`` if any record named one."""
        rows = self._builder.rows()
        if not self._partitions:
            return rows
        named = pa.array([self._partitions.get(row) for row in range(rows.num_rows)], pa.int32())
        return rows.append_column("partition", named)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """Rows of one topic that were put in together, as columns."""

    topic: str
    outcome: Outcome
    born: float
    size: int
    batch: pa.RecordBatch

    def rows(self) -> pa.RecordBatch:
        """The columns."""
        return self.batch


def slices(table: pa.Table | pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """A table as batches of about ``most_bytes`` or less. Raises UsageError for columns that cannot be sent."""
    names = table.schema.names
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown or "value" not in names:
        raise UsageError(
            f"the table has {', '.join(names) or 'no columns'}",
            hint=f"Columns to send are {', '.join(_COLUMNS)}, of which only value is needed; select() or rename them",
        )
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    for name in ("key", "value"):
        if name in names and table.schema.field(name).type != pa.binary():
            table = _as_binary(table, name)
    for batch in table.to_batches():
        pieces = max(1, -(-batch.nbytes // most_bytes))
        rows = max(1, -(-batch.num_rows // pieces))
        for first in range(0, batch.num_rows, rows):
            yield batch.slice(first, rows)


def _as_binary(table: pa.Table, name: str) -> pa.Table:
    column = table.column(name)
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
        return table.set_column(table.schema.get_field_index(name), name, column.cast(pa.binary()))
    except pa.ArrowInvalid as error:
        raise UsageError(f"column {name} is {column.type}, which has no bytes to send: {error}") from error
    except pa.ArrowNotImplementedError:
        raise UsageError(f"column {name} is {column.type}, wanted is binary or string") from None
