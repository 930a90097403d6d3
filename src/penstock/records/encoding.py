"""Arrow columns, or single records, to a record batch v2, encoded by the kernel without a Python object per record.

`encode_v2` encodes columns, `join_records` does so with Arrow's functions, and `BatchBuilder` collects single records.
Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock import kernels
from penstock.errors import UsageError
from penstock.kernels.interface import MAX_HEADER_OVERHEAD, MAX_RECORD_OVERHEAD, SLACK_BYTES, Int64s
from penstock.model import Codec, HeadersLike
from penstock.records.arrow import (
    HEADERS_TYPE,
    Binary,
    binary_array,
    binary_input,
    column_of,
    headers_array,
    headers_input,
    number_array,
    timestamps_of,
)
from penstock.records.batch import (
    ANYONE,
    BATCH_HEADER,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL,
    Bytes,
    Producing,
    crc32c,
)
from penstock.records.compression import compress
from penstock.records.scalar_writer import FewRows, HeaderPairs

__all__ = ["BatchBuilder", "HeadersLike", "can_join", "columns_from", "encode_v2", "join_records"]

# Records without headers joined by Arrow's functions, column by column: nearly as fast as compiled code.
#
# It is for processes that would otherwise load numba, whose half a second of CPU pays off only after some ten million
# records.
_FUNCTIONS: Final = "pyarrow.compute"
_JOIN: Final = "binary_join_element_wise"
_NULL: Final = -1
_SEVEN_BITS: Final = np.uint8(0x7F)
_MORE: Final = np.uint8(0x80)


class _Field(NamedTuple):
    """Numbers to write as varints, and the width of each in bytes; a single number stands for the same in every row."""

    numbers: npt.NDArray[np.uint64]
    sizes: Int64s


def can_join() -> bool:
    """Whether Arrow's functions are loaded. They are not loaded for this, because the caller may be an event loop."""
    return hasattr(sys.modules.get(_FUNCTIONS), _JOIN)


def join_records(key: Binary, value: Binary, deltas: Int64s, out: Bytes, at: int) -> int | None:
    """Write the same as `Kernel.encode_records` for rows without headers, from ``at`` on; return the end.

    Returns None, and writes nothing, if a null has bytes under it.
    """
    count = len(deltas)
    key_lengths, value_lengths = _lengths(key), _lengths(value)
    if key_lengths is None or value_lengths is None:
        return None
    zero = _field(np.zeros(1, np.int64))  # for the attributes, and for the number of headers
    body = [zero, *map(_field, (_same(deltas), np.arange(count), key_lengths, value_lengths)), zero]
    size: Int64s = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    for field in body:
        size = size + field.sizes
    # The number of headers ends a record. Here it is written before the next record, which saves a column.
    *before_key, before_value, _ = [zero, _field(size), *body]
    pieces: list[pa.Array] = []
    fields: list[_Field] = []
    for before, column, lengths in ((before_key, key, key_lengths), ([before_value], value, value_lengths)):
        fields += before
        if len(lengths) > 1 or lengths[0] > 0:
            pieces += [_varints(fields, count), _column(column)]
            fields = []
    if fields:
        pieces.append(_varints(fields, count))
    joined = _joined(pieces)
    end = at + len(joined)
    out[at : end - 1] = joined[1:]
    out[end - 1] = 0
    return end


def _lengths(column: Binary) -> Int64s | None:
    """The length of each row, -1 for null; a single one if all are the same. None if a null has bytes under it."""
    lengths = np.diff(column.ends).astype(np.int64)
    if len(column.valid):
        null = column.valid == 0
        if lengths[null].any():
            return None
        lengths[null] = _NULL
    return _same(lengths)


def _same(numbers: Int64s) -> Int64s:
    """A single number if all are the same."""
    return numbers[:1] if (numbers == numbers[0]).all() else numbers


def _field(numbers: Int64s) -> _Field:
    zigzag = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    sizes = np.ones(len(zigzag), np.int64)
    largest, bits = int(zigzag.max()), 7
    while largest >> bits:
        sizes += zigzag >= np.uint64(1 << bits)
        bits += 7
    return _Field(zigzag, sizes)


def _varints(fields: Sequence[_Field], count: int) -> pa.Array:
    """The fields' numbers as varints, concatenated in each of ``count`` rows."""
    width = sum(int(field.sizes.max()) for field in fields)
    table = np.empty((count, width), np.uint8)
    there = np.ones((count, width), np.bool_)
    at = 0
    for numbers, sizes in fields:
        fewest = int(sizes.min())
        for step in range(int(sizes.max())):
            byte = (numbers >> np.uint64(7 * step)).astype(np.uint8) & _SEVEN_BITS
            table[:, at] = byte | _MORE if step + 1 < fewest else byte | (sizes > step + 1) * _MORE
            if step >= fewest:
                there[:, at] = sizes > step
            at += 1
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.broadcast_to(sum(each.sizes for each in fields), count), out=ends[1:])
    data = table[there] if int(ends[-1]) < table.size else table
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _column(column: Binary) -> pa.Array:
    """The bytes of each row; a null has none."""
    buffers = [None, pa.py_buffer(column.ends), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(column.ends) - 1, buffers)


def _joined(pieces: Sequence[pa.Array]) -> Bytes:
    join: Any = getattr(sys.modules[_FUNCTIONS], _JOIN)
    joined = join(*pieces, binary_array([b""])[0])
    _, ends, data = joined.buffers()
    return np.frombuffer(data, np.uint8, int(np.frombuffer(ends, np.int32)[len(joined)]))


_MOST_BYTES: Final = (1 << 31) - 1 - 12
_MANY: Final = 500
"""From this number of records on, Arrow is faster than plain Python."""
_ROWS_PER_BYTE: Final = 2
"""Records that Arrow joins in the time of one byte in plain Python: says what a compiled kernel would save."""


def encode_v2(
    rows: pa.RecordBatch,
    *,
    codec: Codec = Codec.NONE,
    producing: Producing = ANYONE,
    timestamp_ms: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """Encode ``rows`` as one batch and return its bytes, writable so that a log can stamp them.

    Columns: ``key`` and ``value`` (binary or string; a missing one is null), optionally ``timestamp`` (any timestamp
    type, or integers of milliseconds) and ``headers`` (list of structs of key and value, or a map). Others are
    ignored. Rows without a timestamp get ``timestamp_ms`` (-1: none). Offsets count from ``base_offset``.

    Raises UsageError for no rows, a column of another type, a header without a key, or a batch of 2 GiB.
    """
    count = rows.num_rows
    if not count:
        raise UsageError("a record batch needs at least one record")
    timestamps = timestamps_of(column_of(rows, "timestamp"), count, timestamp_ms)
    records = _encode_records(rows, timestamps - timestamps[0])
    if codec is not Codec.NONE:
        payload = compress(codec, records[HEADER_BYTES:])
        packed = np.empty(HEADER_BYTES + len(payload), np.uint8)
        packed[HEADER_BYTES:] = np.frombuffer(payload, np.uint8)
        records = packed
    attributes = codec | (TRANSACTIONAL if producing.transactional else 0)
    view = records.data
    BATCH_HEADER.pack_into(
        view, 0, base_offset, len(records) - 12, leader_epoch, 2, 0, attributes, count - 1, int(timestamps[0]),
        int(timestamps.max()), producing.producer_id, producing.producer_epoch, producing.base_sequence, count,
    )  # fmt: skip
    struct.pack_into(">I", view, 17, crc32c(records, CRC_START))
    return view


def _encode_records(rows: pa.RecordBatch, deltas: Int64s) -> Bytes:
    """Return a buffer with room for the batch header, followed by the records."""
    count = rows.num_rows
    key, value = (
        binary_input(column_of(rows, "key"), count, "key"),
        binary_input(column_of(rows, "value"), count, "value"),
    )
    header_ends, names, header_values = headers_input(column_of(rows, "headers"))
    headers = int(header_ends[-1]) if len(header_ends) else 0
    most = sum(part.size for part in (key, value, names, header_values))
    most += HEADER_BYTES + count * MAX_RECORD_OVERHEAD + headers * MAX_HEADER_OVERHEAD + SLACK_BYTES
    if most > _MOST_BYTES:
        raise UsageError(f"{count} records of together {most} bytes do not fit into one batch", hint="Split them")
    buffer = pa.allocate_buffer(most, resizable=True)
    out = np.frombuffer(buffer, np.uint8)
    many = count >= _MANY and not headers and can_join()
    kernel = kernels.kernel(count // _ROWS_PER_BYTE if many else most)
    if many and not kernel.COMPILED and (end := join_records(key, value, deltas, out, HEADER_BYTES)) is not None:
        return out[:end]
    end = kernel.encode_records(
        key.data, key.ends, key.valid, value.data, value.ends, value.valid, deltas,
        header_ends, names.data, names.ends, header_values.data, header_values.ends, header_values.valid,
        out, HEADER_BYTES,
    )  # fmt: skip
    return out[:end]


# Single records, collected until the batch is full or has waited long enough.
_RECORD_OVERHEAD: Final = 21
"""Kafka's own limit for the size of a record without key, value and headers."""

_HEADER_OVERHEAD: Final = 10
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", _MILLISECONDS)])
_SCHEMA_WITH_HEADERS: Final = _SCHEMA.append(pa.field("headers", HEADERS_TYPE))


class BatchBuilder:
    """Records in the order of `append`; ``size`` is an upper limit of the uncompressed batch in bytes.

    A caller on the fast path appends to ``keys``, ``values`` and ``timestamps`` directly, in this order, and counts
    sizes itself. A record is complete once its timestamp is appended.
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
        """Add a record; return the estimated size of the batch in bytes."""
        if headers:
            self.add_headers(headers)
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(timestamp_ms)
        self.size += _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        return self.size

    def add_headers(self, headers: HeadersLike) -> None:
        """Add headers of the record that is appended next."""
        self._headers[len(self.timestamps)] = self._take_headers(headers)

    def headers_of(self, row: int) -> HeaderPairs:
        """The headers of one record."""
        return self._headers.get(row, ())

    def repair(self) -> None:
        """Remove the incomplete record of an ``append`` that was interrupted by a signal handler that raised."""
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

        Raises UsageError if a key or a value is not bytes.
        """
        return columns_from(self.keys, self.values, self.timestamps, self._headers)

    def few(self) -> FewRows:
        """Return the records without making columns, for a handful. Nothing may be appended afterwards."""
        return FewRows(self.keys, self.values, self.timestamps, self._headers)

    def build(self, codec: Codec = Codec.NONE, producing: Producing | None = None) -> memoryview:
        """Encode the records as one batch; see `penstock.records.encoding.encode_v2`."""
        return encode_v2(self.rows(), codec=codec, producing=producing or Producing())


def columns_from(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Mapping[int, HeaderPairs],
) -> pa.RecordBatch:
    """Records as columns key, value, timestamp and, if any has some, headers.

    Raises UsageError unless they are bytes.
    """
    try:
        arrays = [binary_array(keys), binary_array(values)]
    except TypeError as error:
        raise UsageError(f"keys and values must be bytes or None: {error}") from None
    count = len(timestamps)
    arrays.append(number_array(_MILLISECONDS, count, np.fromiter(timestamps, np.int64, count)))
    if not headers:
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
    arrays.append(headers_array([headers.get(row, ()) for row in range(count)]))
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA_WITH_HEADERS)
