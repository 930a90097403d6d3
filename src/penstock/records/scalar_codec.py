"""Record batches v2 from single records and back, in plain Python, without Arrow and NumPy.

`encode_one` and `encode_batch` write the records of a front's clients, `stored_records` reads them. `batch_of` and
`entries_of` write and read a node's own topics. Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import google_crc32c

from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.records.batch import (
    ABORT,
    APPEND_TIME,
    COMMIT,
    HEADER_BYTES,
    AbortedTransactions,
    BatchHeader,
    Producing,
    batches,
    control_type,
    verify_crc,
)
from penstock.records.scalar_reader import read_bytes, read_record, read_varint
from penstock.records.scalar_writer import FewRows, encode_few, varint
from penstock.records.validation import ValidatedBatch

__all__ = [
    "MAX_INFLATED_BYTES",
    "Ended",
    "Entry",
    "Noted",
    "Stored",
    "batch_of",
    "encode_batch",
    "encode_one",
    "encode_single",
    "entries_of",
    "header_name",
    "stored_records",
]

# A batch of one record together with its parsed header, for services that send one message and wait.
#
# The bytes are the same as from `scalar_writer.encode_few`, without its work for several records.
_HEAD: Final = struct.Struct(">qiibI")
_HEAD_BYTES: Final = _HEAD.size
_SUMMED: Final = struct.Struct(">hiqqqhii")
"""The part that the checksum covers: attributes, last offset delta, times, producer, number of records."""
_LENGTH_BEFORE: Final = 12
_BEGIN: Final = b"\0\0\0"
"""No attributes, and time and offset of the batch's first record."""
_NULL: Final = b"\x01"
_BEGIN_WITHOUT_KEY: Final = _BEGIN + _NULL
_NO_HEADERS: Final = b"\0"
_crc: Final[Callable[[bytes], int]] = google_crc32c.value
_length = functools.lru_cache(1_024)(varint)
"""Cached, because single messages mostly have few different lengths."""

_header: Final = functools.partial(tuple.__new__, BatchHeader)
"""Makes a `BatchHeader` of all its fields, faster than its constructor with separate arguments."""


def header_name(name: str) -> bytes:
    """A header's name, encoded as it precedes the value."""
    encoded = name.encode()
    return varint(len(encoded)) + encoded


def encode_one(
    key: bytes | None, value: bytes | None, headers: Sequence[bytes], timestamp_ms: int, *, append_time: bool = False
) -> ValidatedBatch:
    """Return the batch of one uncompressed record with the time ``timestamp_ms``; its offset is 0.

    Each of ``headers`` is a `header_name`, followed by the length and the value. With ``append_time`` the time is
    marked as the log's.
    """
    attributes = APPEND_TIME if append_time else 0
    body = b"".join((
        _BEGIN_WITHOUT_KEY if key is None else _BEGIN + _length(len(key)) + key,
        _NULL if value is None else _length(len(value)),
        value or b"",
        varint(len(headers)) + b"".join(headers) if headers else _NO_HEADERS,
    ))  # fmt: skip
    summed = _SUMMED.pack(attributes, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + _length(len(body)) + body
    crc = _crc(summed)
    length = len(summed) + _HEAD_BYTES
    return ValidatedBatch.known(
        _HEAD.pack(0, length - _LENGTH_BEFORE, -1, 2, crc) + summed,
        _header((0, length, -1, 2, crc, attributes, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1, 0)),
    )


assert _HEAD_BYTES + _SUMMED.size == HEADER_BYTES

MAX_INFLATED_BYTES: Final = 256 << 20
_NULL_LENGTH: Final = varint(-1)


class Stored(NamedTuple):
    """One record of the log; ``timed`` if the time is its producer's, otherwise it is the log's."""

    offset: int
    timestamp_ms: int
    timed: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def encode_batch(records: Sequence[Stored]) -> memoryview:
    """Return one uncompressed batch of ``records`` (at least one), with offsets from 0 whatever theirs are.

    A batch has one kind of time for all its records; the first record decides.
    """
    if len(records) == 1 and not (only := records[0]).headers:
        rows = FewRows((only.key,), (only.value,), (only.timestamp_ms,))
        return encode_few(rows, append_time=not only.timed)
    rows = FewRows(
        [record.key for record in records],
        [record.value for record in records],
        [record.timestamp_ms for record in records],
        {place: record.headers for place, record in enumerate(records) if record.headers},
    )
    return encode_few(rows, append_time=not records[0].timed)


def encode_single(record: Stored) -> ValidatedBatch:
    """As `encode_batch` for one record, but faster, and with its parsed header."""
    _, timestamp_ms, timed, key, value, headers = record
    named: Sequence[bytes] = ()
    if headers:
        named = [
            header_name(name) + (_NULL_LENGTH if said is None else varint(len(said)) + said) for name, said in headers
        ]
    return encode_one(key, value, named, timestamp_ms, append_time=not timed)


def stored_records(
    data: bytes | bytearray | memoryview, start: int, aborted: Sequence[tuple[int, int]] = ()
) -> Iterator[Stored]:
    """Yield the records of whole batches from offset ``start`` on. Raises CorruptBatch.

    Skips markers of the log, and records of the ``aborted`` transactions (producer id, first offset).
    """
    transactions = AbortedTransactions(aborted)
    for header in batches(data):
        if header.control:
            if control_type(memoryview(data)[header.position + HEADER_BYTES : header.end]) == ABORT:
                transactions.end(header.producer_id)
            continue
        skipped = transactions.skips(header.producer_id, header.last_offset, transactional=header.transactional)
        if not skipped and header.last_offset >= start:
            yield from _records(_plain(data, header), header, start)


def _plain(data: bytes | bytearray | memoryview, header: BatchHeader) -> bytes:
    packed = memoryview(data)[header.position + HEADER_BYTES : header.end]
    if header.codec is Codec.NONE:
        return bytes(packed)
    from penstock.records.compression import inflate  # imported late: loads NumPy

    return bytes(inflate(header.codec, packed, MAX_INFLATED_BYTES))


def _records(data: bytes, header: BatchHeader, start: int) -> Iterator[Stored]:
    at, end = 0, len(data)
    append_time = bool(header.attributes & APPEND_TIME)
    for _ in range(header.record_count):
        time_delta, delta, body, stop = read_record(data, at, end, header.base_offset)
        at = stop
        if header.base_offset + delta < start:
            continue
        key, body = read_bytes(data, body, stop)
        value, body = read_bytes(data, body, stop)
        time = header.max_timestamp if append_time else header.base_timestamp + time_delta
        yield Stored(header.base_offset + delta, time, not append_time, key, value, _read_headers(data, body, stop))


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    count, at = read_varint(data, at, end)
    if not count:
        return ()
    if not 0 < count <= end - at:
        raise CorruptBatch(f"{count} headers with {end - at} bytes left")
    headers = []
    for _ in range(count):
        name, at = read_bytes(data, at, end)
        value, at = read_bytes(data, at, end)
        headers.append(((name or b"").decode("utf-8", "replace"), value))
    return tuple(headers)


# The codec of a node's own topics: a few keys and values to batches and back, so that a commit loads neither Arrow nor
# NumPy.
Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""

_MAX_INFLATED_BYTES: Final = 256 << 20


class Noted(NamedTuple):
    """An entry in the log, at offset ``position``; ``producer_id`` is that of its transaction, -1 for none.

    ``key`` is None only if a foreign program wrote to the log.
    """

    position: int
    key: bytes | None
    value: bytes | None
    producer_id: int = -1


class Ended(NamedTuple):
    """The end of a producer's transaction."""

    position: int
    producer_id: int
    commit: bool


def batch_of(entries: Sequence[Entry], now_ms: int, producer_id: int = -1, epoch: int = -1) -> ValidatedBatch:
    """Return one uncompressed batch of all entries; with a producer id as part of its transaction, without sequence."""
    if len(entries) == 1 and producer_id < 0:
        key, value = entries[0]
        return encode_one(key, value, (), now_ms)
    rows = FewRows([key for key, _ in entries], [value for _, value in entries], [now_ms] * len(entries))
    return ValidatedBatch(encode_few(rows, producing=Producing(producer_id, epoch, transactional=producer_id >= 0)))


def entries_of(data: bytes | bytearray | memoryview) -> Iterator[Noted | Ended]:
    """Yield the contents of whole batches, in order. Raises CorruptBatch."""
    view = bytes(data)
    for header in batches(view):
        verify_crc(view, header)
        if not header.control:
            yield from _noted(view, header)
            continue
        kind = control_type(memoryview(view)[header.position + HEADER_BYTES : header.end])
        if kind in (ABORT, COMMIT):
            yield Ended(header.base_offset, header.producer_id, kind == COMMIT)


def _noted(data: bytes, header: BatchHeader) -> Iterator[Noted]:
    at, end = header.position + HEADER_BYTES, header.end
    if header.codec is not Codec.NONE:  # penstock never writes such a batch
        from penstock.records.compression import inflate  # loads NumPy

        data = bytes(inflate(header.codec, memoryview(data)[at:end], _MAX_INFLATED_BYTES))
        at, end = 0, len(data)
    producer_id = header.producer_id if header.transactional else -1
    for _ in range(header.record_count):
        _, delta, body, stop = read_record(data, at, end, header.base_offset)
        if not 0 <= delta <= header.last_offset_delta:
            raise CorruptBatch(
                f"offset delta {delta} in a batch of {header.last_offset_delta}", offset=header.base_offset
            )
        key, body = read_bytes(data, body, stop)
        value, _ = read_bytes(data, body, stop)
        yield Noted(header.base_offset + delta, key, value, producer_id)
        at = stop
