"""Arrow columns to a record batch v2, encoded by the kernel: no Python object a record.

What must not live here: which records go together (accumulators decide), sending, single records (`builder`).
Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from penstock import kernels
from penstock.columnar._joined import can_join, join_records
from penstock.columnar.batch import BATCH_HEADER, CRC_START, HEADER_BYTES, TRANSACTIONAL
from penstock.columnar.buffers import Bytes, crc32c
from penstock.columnar.compression import compress
from penstock.columnar.inputs import binary_of, column_of, headers_of, timestamps_of
from penstock.columnar.producing import ANYONE, Producing
from penstock.errors import UsageError
from penstock.kernels.interface import MAX_HEADER_OVERHEAD, MAX_RECORD_OVERHEAD, SLACK_BYTES, Int64s
from penstock.model import Codec

__all__ = ["encode_v2"]

_MOST_BYTES: Final = (1 << 31) - 1 - 12
_MANY: Final = 500
"""Records that Arrow puts together faster than plain Python does."""
_ROWS_PER_BYTE: Final = 2
"""Records that Arrow puts together at the cost of a byte in plain Python: what a compiled kernel would save."""


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
    ignored. Rows without a timestamp get ``timestamp_ms`` (-1: none). Offsets are ``base_offset`` and following.

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
    """Return a buffer with room for the batch header and the records behind it."""
    count = rows.num_rows
    key, value = binary_of(column_of(rows, "key"), count, "key"), binary_of(column_of(rows, "value"), count, "value")
    header_ends, names, header_values = headers_of(column_of(rows, "headers"))
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
