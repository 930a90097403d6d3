"""Several small batches as one: what waits in a line goes in one request, which takes one batch of a partition only.

Records keep their bytes but for their deltas of time and offset. Only batches that nobody numbered and nobody
compressed are merged, so nothing is decoded beyond those fields. Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.columnar.batch import BATCH_HEADER, HEADER_BYTES, BatchHeader
from penstock.columnar.plain_fields import read_record
from penstock.errors import CorruptBatch
from penstock.seams.framing import Buffer

__all__ = ["count_that_fit", "merged"]

_MOST_BYTES: Final = 256 << 10
"""Well below what brokers take by default (1 MiB)."""
_MOST_RECORDS: Final = 2_000
_LENGTH_AFTER: Final = 12
_MAGIC: Final = 2


def _fits(header: BatchHeader) -> bool:
    """Whether a batch can be part of a larger one: plain, of no producer, without holes."""
    return (
        not header.attributes
        and header.producer_id < 0
        and header.record_count == header.last_offset_delta + 1
        and header.length <= _MOST_BYTES
    )


def count_that_fit(headers: Iterable[BatchHeader]) -> int:
    """How many of the first ones make one batch; at least 1."""
    count = size = records = 0
    for header in headers:
        size += header.length
        records += header.record_count
        if count and (not _fits(header) or size > _MOST_BYTES or records > _MOST_RECORDS):
            break
        count += 1
        if not _fits(header):
            break
    return max(count, 1)


def merged(batches: Iterable[tuple[BatchHeader, Buffer]]) -> bytearray:
    """One batch of all records, in order; its checksum is to be written with its number. Raises CorruptBatch."""
    told = list(batches)
    first = told[0][0].base_timestamp
    out = bytearray(HEADER_BYTES)
    count = 0
    for header, data in told:
        plain = bytes(data)
        for record in _moved(header, plain, count, header.base_timestamp - first):
            out += record
        count += header.record_count
    newest = max(header.max_timestamp for header, _ in told)
    length = len(out) - _LENGTH_AFTER
    BATCH_HEADER.pack_into(out, 0, 0, length, -1, _MAGIC, 0, 0, count - 1, first, newest, -1, -1, -1, count)
    return out


def _moved(header: BatchHeader, data: bytes, offset: int, later: int) -> Iterator[bytes]:
    """The records of a batch, behind ``offset`` others and after another first time."""
    at, end = HEADER_BYTES, header.length
    for number in range(header.record_count):
        time, delta, rest, stop = read_record(data, at, end, header.base_offset)
        if delta != number:
            raise CorruptBatch(f"record {number} has offset delta {delta}", offset=header.base_offset)
        body = b"\0" + _varint(time + later) + _varint(delta + offset) + data[rest:stop]
        yield _varint(len(body)) + body
        at = stop


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)
