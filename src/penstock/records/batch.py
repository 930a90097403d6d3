"""Record batch v2 on disk and on the wire: header, checksum, transaction markers. Nothing is copied.

Only the 61-byte header is parsed here; records stay bytes. Source: Kafka protocol, record batch v2 (KIP-98, KIP-534).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import google_crc32c
from msgspec import Struct

from penstock.errors import CorruptBatch, UsageError
from penstock.model import Codec, TimestampType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = [
    "ABORT",
    "ANYONE",
    "APPEND_TIME",
    "BATCH_HEADER",
    "COMMIT",
    "CONTROL",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER_BYTES",
    "TRANSACTIONAL",
    "AbortedTransactions",
    "BatchHeader",
    "BatchScan",
    "Bytes",
    "BytesLike",
    "InflatesTooFar",
    "Producing",
    "as_array",
    "as_view",
    "batches",
    "check_range",
    "control_type",
    "crc32c",
    "end_marker",
    "parse_header",
    "stamp",
    "stamp_append_time",
    "verify_crc",
]

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
BytesLike: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer | npt.NDArray[np.uint8]"
"""Types of readable buffers: anything contiguous with the buffer protocol."""


_SMALL: Final = 4_096


def as_array(buffer: BytesLike) -> Bytes:
    """Return an array over ``buffer``, which it keeps alive."""
    import numpy as np

    if isinstance(buffer, np.ndarray):
        return buffer
    return np.frombuffer(buffer, np.uint8)


def as_view(buffer: BytesLike) -> memoryview:
    """Return a view of unsigned bytes over ``buffer``, read-only if the buffer is."""
    view = memoryview(buffer)  # type: ignore[arg-type]
    return view if view.format == "B" else view.cast("B")


def check_range(size: int, position: int, end: int | None) -> int:
    """Return the end of a range in a buffer of ``size`` bytes; raises UsageError for a position outside of it.

    Compiled code does not check its indexes, so this check must not be left out.
    """
    if not 0 <= position <= size:
        raise UsageError(f"position {position} lies outside a buffer of {size} bytes")
    return size if end is None else max(position, min(end, size))


def crc32c(buffer: BytesLike, begin: int = 0, end: int | None = None) -> int:
    """Return the CRC-32C of ``buffer[begin:end]``."""
    # google_crc32c takes arrays but no memoryviews; its C form runs at 27 GB/s. A process without NumPy so far (a node)
    # copies the bytes instead, which takes a few microseconds a batch, where the import costs 60 ms and 15 MB. For
    # small pieces the copy is also cheaper than making an array.
    view = as_view(buffer)[begin:end]
    if len(view) <= _SMALL or "numpy" not in sys.modules:
        return int(google_crc32c.value(bytes(view)))
    return int(google_crc32c.value(as_array(buffer)[begin:end]))


HEADER_BYTES: Final = 61
CRC_START: Final = 21
"""The checksum covers the batch from here on, so base offset and leader epoch can be stamped without changing it."""

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length of the rest, leader epoch, magic, checksum, attributes, last offset delta, base and largest
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
    """The records decompress to more than the limit; nothing else need be wrong with them."""


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
        """Until when compaction keeps the batch's tombstones or its marker; None before the first compaction.

        The log writes it in place of the base timestamp, and the records' timestamps are relative to it.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch had when it was written; compaction keeps this number."""
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
    """Read the header at ``position`` of a batch that must be in ``buffer`` as a whole.

    Raises CorruptBatch if the batch is cut off, has another format (magic 0 or 1), or contradicts itself.
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

    ``position`` is where the next header would start. After the scan it is the end of the last complete batch, so
    ``buffer[position:end]`` is the incomplete rest (empty if the buffer ends with a batch).
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
    """Iterate over the complete batches of ``buffer[position:end]``; stops at an incomplete one (`BatchScan.position`).

    Raises CorruptBatch at an invalid header. Checksums are not verified: see `verify_crc`.
    """
    return BatchScan(buffer, position, end)


def verify_crc(buffer: BytesLike, header: BatchHeader) -> None:
    """Raise CorruptBatch if the checksum of the batch with this ``header`` does not match its bytes."""
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
    """Make the batch one of LogAppendTime, in which all records have the log's time. Writes a new checksum."""
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


# The producer of a batch, for both ways of encoding one.
class Producing(Struct):
    """Fields of a batch header that make a producer idempotent or transactional; -1 for none. Do not change it.

    Not frozen: there is one per batch, and frozen instances are five times slower to create.
    """

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


ANYONE: Final = Producing()

# Transactions in a log: their markers, and READ_COMMITTED, which skips the aborted batches of a fetched run.
#
# Kafka protocol, Fetch v4 and later; KIP-98. The broker lists the aborted transactions that reach into the answer
# (producer id and first offset). An ABORT marker in the log says where each of them ends. A marker is a control batch
# of one record: its key has version and type, its value has version and the coordinator's epoch.
ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")
_KEY_BYTES: Final = _KEY.size
_RECORD: Final = struct.Struct(">bbbbbhhbhib")
"""The only record of a marker: all its lengths are known and fit into a varint of one byte."""


class AbortedTransactions:
    """Follows a run of batches in the order of their offsets. It keeps state, so use one object per run."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def skips(self, producer_id: int, last_offset: int, *, transactional: bool) -> bool:
        """Whether the data batch that ends at ``last_offset`` was aborted; must be called for every batch."""
        while self._ahead and self._ahead[-1][0] <= last_offset:
            self._open.add(self._ahead.pop()[1])
        return transactional and producer_id in self._open

    def end(self, producer_id: int) -> None:
        """Note an ABORT marker of ``producer_id``."""
        self._open.discard(producer_id)


def end_marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, now_ms: int) -> bytes:
    """Return the control batch that ends a transaction, as a log stores it before it stamps offset and leader epoch."""
    record = _RECORD.pack(
        (_RECORD.size - 1) << 1,
        0,
        0,
        0,
        _KEY_BYTES << 1,
        0,
        COMMIT if commit else ABORT,
        6 << 1,
        0,
        coordinator_epoch,
        0,
    )
    size = HEADER_BYTES + len(record)
    batch = bytearray(size)
    attributes = TRANSACTIONAL | CONTROL
    BATCH_HEADER.pack_into(batch, 0, 0, size - 12, -1, 2, 0, attributes, 0, now_ms, now_ms, producer_id, epoch, -1, 1)
    batch[HEADER_BYTES:] = record
    struct.pack_into(">I", batch, 17, crc32c(batch, CRC_START))
    return bytes(batch)


def control_type(records: BytesLike) -> int:
    """Return the type of a control batch's only record: `ABORT`, `COMMIT`, or one that readers skip.

    Raises CorruptBatch if there is no key of the expected form.
    """
    # Length, attributes, timestamp delta, offset delta, then the key: version and type, 2 bytes each. The offset
    # delta of the only record is 0; length and timestamp delta are varints of any size.
    view = as_view(records)
    at = _after_varint(view, 0) + 1
    at = _after_varint(view, _after_varint(view, at))
    if len(view) < at + 1 + _KEY.size or view[at] != _KEY_BYTES << 1:
        raise CorruptBatch("control record without a key of version and type")
    return int(_KEY.unpack_from(view, at + 1)[1])


def _after_varint(records: memoryview, at: int) -> int:
    while at < len(records) and records[at] > 127:
        at += 1
    return at + 1
