"""Arrow columns to a record batch v2, encoded by the kernel: no Python object a record.

What must not live here: which records go together (accumulators decide), sending, single records (`builder`).
Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock import kernels
from penstock.columnar.batch import CRC_START, HEADER_BYTES
from penstock.columnar.buffers import Bytes, crc32c
from penstock.columnar.compression import compress
from penstock.columnar.schema import HEADERS_TYPE
from penstock.errors import UsageError
from penstock.kernels.interface import MAX_HEADER_OVERHEAD, MAX_RECORD_OVERHEAD, SLACK_BYTES, Int32s, Int64s
from penstock.model import Codec

__all__ = ["Producing", "encode_v2"]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL: Final = 16
_MOST_BYTES: Final = (1 << 31) - 1 - 12
_NOTHING: Final = np.empty(0, np.uint8)
_NO_ENDS: Final = np.empty(0, np.int32)
_ZERO_END: Final = np.zeros(1, np.int32)
_UNITS: Final = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""Of a timestamp type: how many go into a millisecond, and how many milliseconds go into one."""


@dataclass(frozen=True, slots=True)
class Producing:
    """Who writes a batch: the fields of its header that make a producer idempotent or transactional; -1 for none."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


_ANYONE: Final = Producing()


@dataclass(frozen=True, slots=True)
class _Binary:
    """A binary column as the kernel takes it."""

    data: Bytes
    ends: Int32s
    valid: Bytes

    @property
    def size(self) -> int:
        return int(self.ends[-1]) - int(self.ends[0])


def encode_v2(
    rows: pa.RecordBatch,
    *,
    codec: Codec = Codec.NONE,
    producing: Producing = _ANYONE,
    timestamp_ms: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """Encode ``rows`` as one batch and return its bytes, writable so that a log can stamp them.

    Columns: ``key`` and ``value`` (binary or string; a missing one is null), optionally ``timestamp`` (any timestamp
    type, or integers of milliseconds) and ``headers`` (list of structs of key and value, or a map). Others are
    ignored. Rows without a timestamp get ``timestamp_ms`` (-1: none). Offsets are ``base_offset`` and following.

    Raises UsageError for no rows, a column of another type, a header without a key, or a batch of 2 GiB.
    """
    count = rows.num_rows
    if not count:
        raise UsageError("a record batch needs at least one record")
    timestamps = _timestamps(_column(rows, "timestamp"), count, timestamp_ms)
    records = _encode_records(rows, timestamps - timestamps[0])
    if codec is not Codec.NONE:
        payload = compress(codec, records[HEADER_BYTES:])
        packed = np.empty(HEADER_BYTES + len(payload), np.uint8)
        packed[HEADER_BYTES:] = np.frombuffer(payload, np.uint8)
        records = packed
    attributes = codec | (_TRANSACTIONAL if producing.transactional else 0)
    view = records.data
    _HEADER.pack_into(
        view, 0, base_offset, len(records) - 12, leader_epoch, 2, 0, attributes, count - 1, int(timestamps[0]),
        int(timestamps.max()), producing.producer_id, producing.producer_epoch, producing.base_sequence, count,
    )  # fmt: skip
    struct.pack_into(">I", view, 17, crc32c(records, CRC_START))
    return view


def _encode_records(rows: pa.RecordBatch, deltas: Int64s) -> Bytes:
    """Return a buffer with room for the batch header and the records behind it."""
    count = rows.num_rows
    key, value = _binary(_column(rows, "key"), count, "key"), _binary(_column(rows, "value"), count, "value")
    header_ends, names, header_values = _headers(_column(rows, "headers"))
    headers = int(header_ends[-1]) if len(header_ends) else 0
    most = sum(part.size for part in (key, value, names, header_values))
    most += HEADER_BYTES + count * MAX_RECORD_OVERHEAD + headers * MAX_HEADER_OVERHEAD + SLACK_BYTES
    if most > _MOST_BYTES:
        raise UsageError(f"{count} records of together {most} bytes do not fit into one batch", hint="Split them")
    buffer = pa.allocate_buffer(most, resizable=True)
    out = np.frombuffer(buffer, np.uint8)
    end = kernels.kernel(most).encode_records(
        key.data, key.ends, key.valid, value.data, value.ends, value.valid, deltas,
        header_ends, names.data, names.ends, header_values.data, header_values.ends, header_values.valid,
        out, HEADER_BYTES,
    )  # fmt: skip
    return out[:end]


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def _timestamps(column: pa.Array | None, count: int, default_ms: int) -> Int64s:
    if column is None:
        return np.full(count, default_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        per_ms, ms_per = _UNITS[column.type.unit]
        # floor_divide, not a cast: a time before 1970 must not move forwards.
        numbers = _plain(column.view(pa.int64()), count)
        milliseconds = numbers * ms_per if per_ms == 1 else np.floor_divide(numbers, per_ms)
    elif pa.types.is_integer(column.type):
        milliseconds = _plain(column.cast(pa.int64()), count)
    else:
        raise UsageError(f"column 'timestamp' is {column.type}", hint="Give timestamps, or integers of milliseconds")
    if column.null_count:
        milliseconds = np.where(_valid(column), milliseconds, default_ms)
    return milliseconds


def _plain(column: pa.Array, count: int) -> Int64s:
    """Return the numbers of an int64 array, whatever lies under its nulls included."""
    return np.frombuffer(column.buffers()[1], np.int64, count, 8 * column.offset)


def _valid(column: pa.Array) -> Bytes:
    """Return a byte a row of an array that has nulls: 0 where null."""
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    return np.unpackbits(bits, bitorder="little", count=column.offset + len(column))[column.offset :]


def _binary(column: pa.Array | None, count: int, name: str) -> _Binary:
    if column is None or pa.types.is_null(column.type):
        return _Binary(_NOTHING, np.zeros(count + 1, np.int32), np.zeros(count, np.uint8))
    if not pa.types.is_binary(column.type) and not pa.types.is_string(column.type):
        try:
            column = column.cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column {name!r} is {column.type}, not binary or string: {error}") from None
    column.validate()
    _, ends, data = column.buffers()
    return _Binary(
        _NOTHING if data is None else np.frombuffer(data, np.uint8),
        _ends(ends, column.offset, count),
        _valid(column) if column.null_count else _NOTHING,
    )


def _ends(buffer: pa.Buffer, offset: int, count: int) -> Int32s:
    if not count:
        return _ZERO_END
    ends = np.frombuffer(buffer, np.int32, count + 1, 4 * offset)
    return np.require(ends, requirements="A")  # what came from elsewhere may be unaligned; compiled code insists


def _headers(column: pa.Array | None) -> tuple[Int32s, _Binary, _Binary]:
    nothing = _Binary(_NOTHING, _ZERO_END, _NOTHING)
    if column is None or pa.types.is_null(column.type):
        return _NO_ENDS, nothing, nothing
    if column.type != HEADERS_TYPE:
        try:
            column = column.cast(HEADERS_TYPE)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column 'headers' is {column.type}, not a list of key and value: {error}") from None
    pairs = column.flatten()
    if not len(pairs):
        return _NO_ENDS, nothing, nothing
    lengths = np.diff(np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset))
    if column.null_count:  # a null may have a length, but what it points to was left out above
        lengths = np.where(_valid(column), lengths, 0)
    ends = np.concatenate([_ZERO_END, np.cumsum(lengths, dtype=np.int32)])
    names = pairs.field(0)
    if names.null_count or pairs.null_count:
        raise UsageError("a header has no key", hint="Header keys are text; only their values may be null")
    return ends, _binary(names, len(pairs), "headers.key"), _binary(pairs.field(1), len(pairs), "headers.value")
