"""Single records to a batch: what a producer's one-by-one path collects until the batch is full or has waited enough.

What must not live here: time, partitions and sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.columnar.arrays import binary_of, headers_of, numbers
from penstock.columnar.batch import HEADER_BYTES
from penstock.columnar.encode import encode_v2
from penstock.columnar.few import FewRows, HeaderPairs
from penstock.columnar.producing import Producing
from penstock.columnar.schema import HEADERS_TYPE
from penstock.errors import UsageError
from penstock.model import Codec

__all__ = ["BatchBuilder", "HeadersLike", "columns_from"]

HeadersLike: TypeAlias = "Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]"

_RECORD_OVERHEAD: Final = 21
"""Kafka's own bound for the fields around key, value and headers of a record."""

_HEADER_OVERHEAD: Final = 10
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", _MILLISECONDS)])
_SCHEMA_WITH_HEADERS: Final = _SCHEMA.append(pa.field("headers", HEADERS_TYPE))


class BatchBuilder:
    """Records in the order of `append`; ``size`` is an upper bound of the uncompressed batch in bytes.

    Who is in a hurry appends to ``keys``, ``values`` and ``timestamps`` himself, in this order, and counts sizes
    himself: a record is in as soon as its timestamp is.
    """

    __slots__ = ("_headers", "keys", "size", "timestamps", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self._headers: dict[int, list[tuple[str, bytes | None]]] = {}
        self.size = HEADER_BYTES

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: HeadersLike | None = None
    ) -> int:
        """Add a record; returns the estimated size of the batch in bytes."""
        if headers:
            self.add_headers(headers)
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(timestamp_ms)
        self.size += _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        return self.size

    def add_headers(self, headers: HeadersLike) -> None:
        """Those of the record that is appended next."""
        self._headers[len(self.timestamps)] = self._take_headers(headers)

    def headers_of(self, row: int) -> HeaderPairs:
        """Those of one record."""
        return self._headers.get(row, ())

    def repair(self) -> None:
        """Forget the half of a record whose ``append`` was interrupted, by a signal's handler that raised."""
        whole = len(self.timestamps)
        self._headers.pop(whole, None)
        del self.keys[whole:]
        del self.values[whole:]

    def _take_headers(self, headers: HeadersLike) -> list[tuple[str, bytes | None]]:
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        self.size += sum(_HEADER_OVERHEAD + 4 * len(name) + len(value or b"") for name, value in pairs)
        return pairs

    def rows(self) -> pa.RecordBatch:
        """Return the records as columns key, value, timestamp and, if any record has some, headers.

        Raises UsageError where a key or a value is not bytes.
        """
        return columns_from(self.keys, self.values, self.timestamps, self._headers)

    def few(self) -> FewRows:
        """The records as they are: for a handful. Nothing may be appended any more."""
        return FewRows(self.keys, self.values, self.timestamps, self._headers)

    def build(self, codec: Codec = Codec.NONE, producing: Producing | None = None) -> memoryview:
        """Encode the records as one batch; see `penstock.columnar.encode.encode_v2`."""
        return encode_v2(self.rows(), codec=codec, producing=producing or Producing())


def columns_from(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Mapping[int, HeaderPairs],
) -> pa.RecordBatch:
    """Records as columns key, value, timestamp and, if any has some, headers. Raises UsageError for no bytes."""
    try:
        arrays = [binary_of(keys), binary_of(values)]
    except TypeError as error:
        raise UsageError(f"keys and values must be bytes or None: {error}") from None
    count = len(timestamps)
    arrays.append(numbers(_MILLISECONDS, count, np.fromiter(timestamps, np.int64, count)))
    if not headers:
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
    arrays.append(headers_of([headers.get(row, ()) for row in range(count)]))
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA_WITH_HEADERS)
