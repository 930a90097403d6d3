"""Batches of a handful of records, in plain Python: those of the node's own topics (offsets, groups, transactions).

Neither Arrow nor NumPy is loaded for a commit. What must not live here: what keys and values say.
Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.columnar.batch import HEADER_BYTES, BatchHeader
from penstock.columnar.buffers import crc32c
from penstock.columnar.plain_fields import read_bytes, read_varint, write_bytes, write_varint
from penstock.errors import CorruptBatch

__all__ = ["Entry", "batch_of", "records_of"]

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None is a tombstone."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL: Final = 16


def batch_of(entries: Sequence[Entry], now_ms: int, producer_id: int = -1, epoch: int = -1) -> bytes:
    """One uncompressed batch v2 of all entries; with a producer id, one of its transaction, without sequence."""
    records = bytearray()
    for delta, (key, value) in enumerate(entries):
        body = bytearray(b"\0\0")  # attributes, timestamp delta
        write_varint(body, delta)
        write_bytes(body, key)
        write_bytes(body, value)
        body.append(0)  # no headers
        write_varint(records, len(body))
        records += body
    count = len(entries)
    size = HEADER_BYTES - 12 + len(records)
    attributes = _TRANSACTIONAL if producer_id >= 0 else 0
    head = bytearray(
        _HEADER.pack(0, size, -1, 2, 0, attributes, count - 1, now_ms, now_ms, producer_id, epoch, -1, count)
    )
    struct.pack_into(">I", head, 17, crc32c(bytes(head[21:]) + records))
    return bytes(head + records)


def records_of(data: bytes, header: BatchHeader) -> Iterator[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of the records of an uncompressed batch that have a key. Raises CorruptBatch."""
    at, end = header.position + HEADER_BYTES, header.end
    for _ in range(header.record_count):
        size, at = read_varint(data, at, end)
        stop = at + size
        if size < 0 or stop > end:
            raise CorruptBatch(f"a record of {size} bytes at byte {at} of {end}", offset=header.base_offset)
        _, body = read_varint(data, at + 1, stop)
        delta, body = read_varint(data, body, stop)
        if not 0 <= delta <= header.last_offset_delta:
            raise CorruptBatch(
                f"offset delta {delta} in a batch of {header.last_offset_delta}", offset=header.base_offset
            )
        key, body = read_bytes(data, body, stop)
        value, body = read_bytes(data, body, stop)
        if key is not None:
            yield header.base_offset + delta, key, value
        at = stop
