"""A handful of records that were read, in plain Python: below some dozens, objects cost less than columns.

Only what is plain in every way is read here: whole batches v2, not compressed, nothing of transactions that were
aborted, no markers. Of anything else, and of any damage, nothing is said but that it is not for here: `decode` looks at
it and finds the words. Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c

from penstock.columnar.batch import APPEND_TIME, BATCH_HEADER, CRC_START, HEADER_BYTES, TRANSACTIONAL
from penstock.columnar.buffers import BytesLike, as_view
from penstock.columnar.plain_fields import read_bytes, read_record, read_varint
from penstock.errors import CorruptBatch
from penstock.model import Partition, Record, TimestampType

__all__ = ["read_few"]

_MOST_BYTES: Final = 16 * 1024
"""Fetches up to this size may hold few records; in larger ones nobody looks."""

_FEW: Final = 32
_LENGTH_AFTER: Final = 12
_MOST_MS: Final = 1 << 52
_NO_STOP: Final = (1 << 63) - 1

Found = tuple[list[Record], int]
"""Records, and the offset to read next."""


class _NotPlain(Exception):
    """This is for `decode`."""


def read_few(
    buffer: BytesLike,
    partition: Partition,
    *,
    start: int,
    stop: int | None = None,
    check_crcs: bool = True,
    most: int = _FEW,
    most_bytes: int = _MOST_BYTES,
) -> Found | None:
    """The records of ``buffer`` in ``[start, stop)``, and where to read on; None if they are many or not plain.

    Many are more than ``most``, or more than ``most_bytes``.
    """
    view = as_view(buffer)
    if len(view) > most_bytes:
        return None
    data = bytes(view)
    try:
        return _read(data, partition, start, _NO_STOP if stop is None else stop, check_crcs, most)
    except (_NotPlain, CorruptBatch, UnicodeDecodeError, struct.error):
        return None


def _read(data: bytes, partition: Partition, start: int, stop: int, check_crcs: bool, most: int) -> Found:
    found: list[Record] = []
    at, next_offset, left = 0, -1, most
    while len(data) - at >= HEADER_BYTES:
        base, length, _, magic, crc, attributes, last_delta, first_ms, most_ms, _, _, _, count = (
            BATCH_HEADER.unpack_from(data, at)
        )
        end = at + _LENGTH_AFTER + length
        if end > len(data) and magic == 2 and length >= HEADER_BYTES - _LENGTH_AFTER:
            break  # cut off
        left -= count
        plain = magic == 2 and not attributes & ~(APPEND_TIME | TRANSACTIONAL) and base >= 0
        if not plain or length < HEADER_BYTES - _LENGTH_AFTER or not 0 < count <= last_delta + 1 or left < 0:
            raise _NotPlain
        if base >= stop:
            break
        if check_crcs and google_crc32c.value(data[at + CRC_START : end]) != crc:
            raise _NotPlain
        if base + last_delta >= start:
            fixed_ms = most_ms if attributes & APPEND_TIME else None
            records = _records(data, at + HEADER_BYTES, end, partition, base, last_delta, first_ms, fixed_ms, count)
            found += [record for record in records if start <= record.offset < stop]
        next_offset = base + last_delta + 1
        at = end
    if next_offset < 0:
        raise _NotPlain
    return found, max(min(next_offset, stop), start)


def _records(
    data: bytes,
    at: int,
    end: int,
    partition: Partition,
    base: int,
    last_delta: int,
    first_ms: int,
    fixed_ms: int | None,
    count: int,
) -> list[Record]:
    topic, number = partition.topic, partition.id
    kind = TimestampType.CREATE if fixed_ms is None else TimestampType.LOG_APPEND
    found = []
    before = -1
    for _ in range(count):
        later, delta, at, stop = read_record(data, at, end, base)
        key, at = read_bytes(data, at, stop)
        value, at = read_bytes(data, at, stop)
        pairs, at = (0, at + 1) if at < stop and not data[at] else read_varint(data, at, stop)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if pairs:
            headers, at = _headers(data, at, stop, pairs)
        milliseconds = first_ms + later if fixed_ms is None else fixed_ms
        if at != stop or not before < delta <= last_delta or not -1 <= milliseconds < _MOST_MS:
            raise _NotPlain
        before = delta
        found.append(Record(topic, number, base + delta, milliseconds, key, value, headers, kind))
    if at != end:
        raise _NotPlain
    return found


def _headers(data: bytes, at: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 < count <= end - at:
        raise _NotPlain
    pairs = []
    for _ in range(count):
        name, at = read_bytes(data, at, end)
        if name is None:
            raise _NotPlain
        value, at = read_bytes(data, at, end)
        pairs.append((name.decode(), value))
    return tuple(pairs), at
