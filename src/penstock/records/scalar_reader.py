"""Reads a handful of records in plain Python: below some dozens, objects cost less than columns.

Loads neither Arrow nor NumPy. Source: Kafka protocol, record v2.
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c

from penstock.errors import CorruptBatch
from penstock.model import Partition, Record, TimestampType
from penstock.records.batch import (
    APPEND_TIME,
    BATCH_HEADER,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    TRANSACTIONAL,
    BytesLike,
    as_view,
)

__all__ = ["read_bytes", "read_few", "read_record", "read_varint"]

_NULL: Final = 1
"""A length of -1."""

_TWO_ZEROS_END: Final = 3
"""Where the key begins, after attributes and two deltas of 0."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a zigzag varint and its end. Raises CorruptBatch if it does not end before ``end``."""
    if at < end and (byte := data[at]) < 128:  # the usual case
        return (byte >> 1) ^ -(byte & 1), at + 1
    bits = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    raise CorruptBatch(f"a varint at byte {at} does not end")


def read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Return the bytes after their length (None if that is negative), and their end. Raises CorruptBatch."""
    if at < end and data[at] == _NULL:
        return None, at + 1
    size, at = read_varint(data, at, end)
    if size < 0:
        return None, at
    stop = at + size
    if stop > end:
        raise CorruptBatch(f"a field of {size} bytes with {end - at} left")
    return data[at:stop], stop


def read_record(data: bytes, at: int, end: int, base_offset: int) -> tuple[int, int, int, int]:
    """Read a record up to its key; return its deltas of time and offset, the start of the key, the end of the record.

    Raises CorruptBatch, with the ``base_offset`` of its batch, for a record that does not fit before ``end``.
    """
    size, at = read_varint(data, at, end)
    stop = at + size
    if size < 0 or stop > end:
        raise CorruptBatch(f"a record of {size} bytes at byte {at} of {end}", offset=base_offset)
    if stop - at > _TWO_ZEROS_END and not data[at + 1] and not data[at + 2]:  # as in a batch of one record
        return 0, 0, at + _TWO_ZEROS_END, stop
    later, at = read_varint(data, at + 1, stop)
    delta, at = read_varint(data, at, stop)
    return later, delta, at, stop


_MOST_BYTES: Final = 16 * 1024
"""Fetches above this size are not searched for a few records."""

_FEW: Final = 32
_LENGTH_AFTER: Final = 12
_MOST_MS: Final = 1 << 52
_NO_STOP: Final = (1 << 63) - 1
_ALONE: Final = struct.Struct(">qi4xbIhiq22xi")
"""Fields of a batch header: base offset, length of the rest, magic, checksum, attributes, last offset delta, base
timestamp, number of records."""

_FIRST: Final = b"\0\0\0"
"""Attributes and deltas of time and offset of a batch's first record."""

_ONE_BYTE: Final = 128
_TWO_BYTES: Final = 1 << 14

Found = tuple[list[Record], int]
"""Records, and the offset to read next."""


class _NotPlain(Exception):
    """The batch needs the columnar decoder (`penstock.records.decoding`)."""


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
    """Return the records of ``buffer`` in ``[start, stop)``, and where to read on.

    None if they are more than ``most`` or ``most_bytes``, or not plain.
    """
    view = buffer if buffer.__class__ is memoryview and buffer.format == "B" else as_view(buffer)
    if len(view) > most_bytes:
        return None
    data = bytes(view)
    last = _NO_STOP if stop is None else stop
    try:
        return _only(data, partition, start, last, check_crcs) or _read(data, partition, start, last, check_crcs, most)
    except (_NotPlain, CorruptBatch, UnicodeDecodeError, struct.error):
        return None


def _only(data: bytes, partition: Partition, start: int, stop: int, check_crcs: bool) -> Found | None:
    """Read one record in one batch, as in a slow stream; None if `_read` has to look.

    A record that comes alone finds the processor's caches cold, so every check left out saves time.
    """
    size = len(data)
    if size <= HEADER_BYTES:
        return None
    base, length, magic, crc, attributes, last_delta, first_ms, count = _ALONE.unpack_from(data)
    if count != 1 or last_delta or attributes or magic != 2 or length != size - _LENGTH_AFTER:
        return None
    if not start <= base < stop or not -1 <= first_ms < _MOST_MS:
        return None
    if check_crcs and google_crc32c.value(data[CRC_START:]) != crc:
        return None
    try:
        bits, at = data[HEADER_BYTES], HEADER_BYTES + 1
        if bits >= _ONE_BYTE:
            bits, at = bits - _ONE_BYTE + (data[at] << 7), at + 1
        if bits & 1 or bits >= _TWO_BYTES or at + (bits >> 1) != size or data[at : at + 3] != _FIRST:
            return None
        key, at = _short(data, at + 3)
        value, at = _short(data, at)
        if at != size - 1 or data[at]:
            return None  # there are headers, or a length is wrong
    except IndexError:
        return None
    return [Record(partition.topic, partition.id, base, first_ms, key, value, (), TimestampType.CREATE)], base + 1


def _short(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return bytes whose length takes one byte or two, and where they should end. Raises IndexError for others."""
    bits = data[at]
    at += 1
    if bits == 1:
        return None, at
    if bits >= _ONE_BYTE:
        bits += (data[at] << 7) - _ONE_BYTE
        at += 1
    if bits & 1 or bits >= _TWO_BYTES:
        raise IndexError(at)
    end = at + (bits >> 1)
    return data[at:end], end


def _read(data: bytes, partition: Partition, start: int, stop: int, check_crcs: bool, most: int) -> Found:
    found: list[Record] = []
    at, next_offset, left = 0, -1, most
    while len(data) - at >= HEADER_BYTES:
        base, length, _, magic, crc, attributes, last_delta, first_ms, most_ms, _, _, _, count = (
            BATCH_HEADER.unpack_from(data, at)
        )
        end = at + _LENGTH_AFTER + length
        if end > len(data) and magic == 2 and length >= HEADER_BYTES - _LENGTH_AFTER:
            break  # incomplete
        left -= count
        plain = magic == 2 and not attributes & ~(APPEND_TIME | TRANSACTIONAL | DELETE_HORIZON) and base >= 0
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
