"""What users put in: single records, checked and brought into the columns that senders pack, and tables beside them.

A wrong record is refused where it is put in, in the caller's traceback, and never takes a batch of good ones with it.
What must not live here: how tables are read (`_tables`), partitions, memory, time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np
import pyarrow as pa

from penstock._dataclasses import dataclass
from penstock.client.delivery import Outcome
from penstock.columnar.arrays import numbers
from penstock.columnar.builder import BatchBuilder, HeadersLike
from penstock.columnar.few import FEW, Rows
from penstock.errors import UsageError

__all__ = ["OVERHEAD", "StagedTable", "Staging", "payload", "record_size"]

_HEADERS: Final = "Headers are text to bytes or None"
OVERHEAD: Final = 80
"""Bytes of memory and of batch that a record takes beside its key and value, about."""


def payload(name: str, given: object) -> bytes | None:
    """A key or a value as bytes. Raises UsageError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    hint = "Encode text first: text.encode()" if isinstance(given, str) else "Serialise it first"
    raise UsageError(f"{name} is {type(given).__name__}, wanted is bytes or None", hint=hint)


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    """Names and contents as they were given. Raises UsageError for what has none."""
    if hasattr(headers, "items"):
        headers = headers.items()
    if isinstance(headers, str | bytes) or not isinstance(headers, Sequence | Set):
        raise UsageError(f"headers are {type(headers).__name__}, wanted is a dict or a list of pairs", hint=_HEADERS)
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"one of the headers is {pair!r:.80}, wanted is a pair", hint=_HEADERS)
        yield pair[0], pair[1]


def record_size(key: bytes | None, value: bytes | None, headers: HeadersLike | None) -> int:
    """About what a record weighs. Raises UsageError for headers of another shape."""
    size = OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        for name, content in _pairs(headers):
            if not isinstance(name, str):
                raise UsageError(f"the name of a header is {type(name).__name__} ({name!r:.40})", hint=_HEADERS)
            if not (content is None or isinstance(content, bytes)):
                kind = type(content).__name__
                raise UsageError(f"header {name!r} is {kind}, wanted is bytes or None", hint=_HEADERS)
            if not name.isascii() and not _is_unicode(name):
                raise UsageError(f"header {name!r} has a name that is no Unicode text")
            size += len(name) + len(content or b"") + 16
    return size


def _is_unicode(text: str) -> bool:
    """Half a surrogate pair, as JSON may carry it, is none."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class Staging:
    """Single records of one topic, put in one after the other, until they are given to partitions together."""

    __slots__ = ("_builder", "born", "keys", "named", "outcome", "size", "timestamps", "topic", "values")

    def __init__(self, topic: str, outcome: Outcome, born: float) -> None:
        self.topic = topic
        self.outcome = outcome
        self.born = born
        self.size = 0
        builder = self._builder = BatchBuilder()
        self.keys = builder.keys
        self.values = builder.values
        self.timestamps = builder.timestamps
        """Appended to last: a record is in as soon as its timestamp is."""
        self.named: dict[int, int] = {}
        """The partitions that records named, by row."""

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
        row = len(self.timestamps)
        if partition is not None:
            self.named[row] = partition
        if headers:
            self._builder.add_headers(headers)
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(timestamp_ms)
        self.size += size
        return row

    def repair(self) -> None:
        """Forget the half of a record whose ``append`` was interrupted."""
        builder = self._builder
        builder.repair()
        self.named.pop(len(builder), None)
        pairs = enumerate(zip(self.keys, self.values, strict=True))
        self.size = sum(record_size(key, value, builder.headers_of(row)) for row, (key, value) in pairs)

    def __len__(self) -> int:
        return len(self.timestamps)

    def rows(self) -> Rows:
        """The records as they are where they are few; else as columns, with ``partition`` if any record named one."""
        if len(self) <= FEW:
            return self._builder.few()
        rows = self._builder.rows()
        if not self.named:
            return rows
        partitions = np.full(rows.num_rows, -1, np.int32)
        partitions[list(self.named)] = list(self.named.values())
        named = numbers(pa.int32(), rows.num_rows, partitions, partitions >= 0)
        return rows.append_column("partition", named)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """Rows of one topic that were put in together, as columns."""

    topic: str
    outcome: Outcome
    born: float
    size: int
    batch: pa.RecordBatch

    @property
    def named(self) -> Mapping[int, int]:
        """No partition is named beside the columns."""
        return {}

    def rows(self) -> Rows:
        """The columns."""
        return self.batch
