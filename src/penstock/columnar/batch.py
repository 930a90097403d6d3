"""Record batch v2 as it lies on disk and on the wire: its header, its checksum, and what a broker writes into it.

Only the 61-byte header is read here; records stay bytes. What must not live here: loops over records (`decode`,
`encode`), and anything that needs a compiled kernel, since the store scans its segments with this module at start-up.

Source: Kafka protocol, record batch v2 (KIP-98, KIP-534).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.columnar.buffers import BytesLike, as_view, crc32c
from penstock.errors import CorruptBatch
from penstock.model import Codec, TimestampType

__all__ = [
    "APPEND_TIME",
    "BATCH_HEADER",
    "CONTROL",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER_BYTES",
    "TRANSACTIONAL",
    "BatchHeader",
    "BatchScan",
    "InflatesTooFar",
    "batches",
    "parse_header",
    "stamp",
    "stamp_append_time",
    "verify_crc",
]

HEADER_BYTES: Final = 61
CRC_START: Final = 21
"""The checksum covers the batch from here on: base offset and leader epoch can be stamped without touching it."""

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length of what follows, leader epoch, magic, checksum, attributes, last offset delta, base and largest
timestamp, producer's id, epoch and sequence, number of records."""

_PREFIX: Final = struct.Struct(">qiib")
_LENGTH_AFTER: Final = 12
_SEQUENCES: Final = 1 << 31
_LAST_OFFSET: Final = (1 << 63) - 2

_CODEC_MASK: Final = 7
APPEND_TIME: Final = 8
TRANSACTIONAL: Final = 16
CONTROL: Final = 32
DELETE_HORIZON: Final = 64
"""Bits of the attributes, above those of the codec. Producers set neither of the last two."""
_CODECS: Final = tuple(Codec)


class InflatesTooFar(CorruptBatch):
    """The records inflate to more than somebody allows; nothing else need be wrong with them."""


class BatchHeader(NamedTuple):
    """The header of one batch; ``length`` is the whole batch in bytes, ``position`` where it starts in its buffer.

    Timestamps are milliseconds since 1970 UTC. ``producer_id``, ``producer_epoch`` and ``base_sequence`` are -1 for
    a producer that is not idempotent.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int

    @property
    def codec(self) -> Codec:
        """How the records are compressed."""
        return _CODECS[self.attributes & _CODEC_MASK]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether producers or the log set the timestamps."""
        return TimestampType.LOG_APPEND if self.attributes & APPEND_TIME else TimestampType.CREATE

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch holds a marker of the log itself, which readers never see."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Until when compaction keeps the batch's tombstones, or its marker; None if no compaction has met it yet.

        The log writes it in place of the base timestamp, and counts the records' timestamps from there.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch had when it was written; compaction keeps it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where a reader continues."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, which wraps from 2147483647 to 0; -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def end(self) -> int:
        """Position after the batch."""
        return self.position + self.length


def parse_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """Read the header at ``position`` of a batch that must lie in ``buffer`` as a whole.

    Raises CorruptBatch where it does not, is of another format (magic 0 or 1), or its fields contradict each other.
    """
    view = as_view(buffer)
    left = len(view) - position
    if position < 0 or left < HEADER_BYTES:
        raise CorruptBatch(f"batch header cut off at byte {position}: {max(left, 0)} of {HEADER_BYTES} bytes are there")
    header = _header(BATCH_HEADER.unpack_from(view, position), position)
    if header.length > left:
        raise CorruptBatch(
            f"batch at byte {position} is cut off: {left} of {header.length} bytes are there",
            offset=header.base_offset,
        )
    return header


class BatchScan(Iterator[BatchHeader]):
    """The complete batches of a buffer, one header at a time.

    ``position`` is where the next header would start; once the scan has ended it is the end of the last complete
    batch, so ``buffer[position:end]`` is the incomplete tail (empty where the buffer ends with a batch).
    """

    def __init__(self, buffer: BytesLike, position: int = 0, end: int | None = None) -> None:
        self._view = as_view(buffer)
        self._end = len(self._view) if end is None else min(end, len(self._view))
        self.position = position

    def __next__(self) -> BatchHeader:
        position = self.position
        left = self._end - position
        if left < _PREFIX.size:
            raise StopIteration
        base, rest, _, magic = _PREFIX.unpack_from(self._view, position)
        if left < rest + _LENGTH_AFTER and magic == 2:
            raise StopIteration
        if left < HEADER_BYTES or rest < HEADER_BYTES - _LENGTH_AFTER:
            raise CorruptBatch(f"batch length {rest} at byte {position + 8} is too small for a header", offset=base)
        header = _header(BATCH_HEADER.unpack_from(self._view, position), position)
        self.position = position + header.length
        return header


def batches(buffer: BytesLike, position: int = 0, end: int | None = None) -> BatchScan:
    """Iterate over the complete batches of ``buffer[position:end]``; stops at an incomplete tail and says where.

    Raises CorruptBatch at a header that cannot be one. Checksums are not looked at: see `verify_crc`.
    """
    return BatchScan(buffer, position, end)


def verify_crc(buffer: BytesLike, header: BatchHeader) -> None:
    """Raise CorruptBatch if the checksum of the batch that ``header`` was read from does not fit its bytes."""
    found = crc32c(buffer, header.position + CRC_START, header.position + header.length)
    if found != header.crc:
        raise CorruptBatch(
            f"checksum of the batch at byte {header.position} is {found:#010x}, its header says {header.crc:#010x}",
            offset=header.base_offset,
        )


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write the offset and the leader epoch that the log has assigned; the checksum does not cover them."""
    struct.pack_into(">q", batch, position, base_offset)
    struct.pack_into(">i", batch, position + 12, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, timestamp_ms: int, position: int = 0) -> None:
    """Make the batch one of LogAppendTime: all its records have the log's time. Writes a new checksum."""
    header = parse_header(batch, position)
    struct.pack_into(">h", batch, position + 21, header.attributes | APPEND_TIME)
    struct.pack_into(">q", batch, position + 35, timestamp_ms)
    struct.pack_into(">I", batch, position + 17, crc32c(batch, position + CRC_START, header.end))


def _header(fields: tuple[int, ...], position: int) -> BatchHeader:
    base, rest, epoch, magic, crc, attributes, last, base_ms, max_ms, producer, producer_epoch, sequence, count = fields
    fault = None
    if magic != 2:
        fault = f"magic {magic} at byte {position + 16}: not a record batch v2"
    elif rest < HEADER_BYTES - _LENGTH_AFTER:
        fault = f"batch length {rest} at byte {position + 8} is too small for a header"
    elif last < 0:
        fault = f"last offset delta {last} at byte {position + 23} is negative"
    elif base < 0 or base > _LAST_OFFSET - last:
        fault = f"base offset {base} at byte {position} is out of range"
    elif attributes & _CODEC_MASK >= len(_CODECS):
        fault = f"codec {attributes & _CODEC_MASK} at byte {position + 21} is unknown"
    elif count < 0:
        fault = f"record count {count} at byte {position + 57} is negative"
    if fault:
        raise CorruptBatch(fault, offset=base)
    return BatchHeader(
        base, rest + _LENGTH_AFTER, epoch, magic, crc, attributes, last, base_ms, max_ms, producer, producer_epoch,
        sequence, count, position,
    )  # fmt: skip
