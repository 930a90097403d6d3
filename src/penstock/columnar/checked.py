"""A batch that was looked at: whoever holds a `Checked` one need not compute its checksum once more.

`true_head` is the one place where a node compares a batch's head with its records. What must not live here: what a
protocol or a topic asks of a batch beyond that.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.columnar.batch import (
    APPEND_TIME,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    BatchHeader,
    parse_header,
    verify_crc,
)
from penstock.columnar.buffers import crc32c
from penstock.columnar.record_walk import RecordTimes, walk_records
from penstock.errors import CorruptBatch
from penstock.model import Codec

__all__ = ["Checked", "largest_time", "plain_records", "true_head", "verified"]

_MAX_INFLATED_BYTES: Final = 256 << 20
_NO_TIME: Final = -1
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIME_AT = 17, 21, 35


class Checked:
    """One whole batch v2, and nothing behind it, whose checksum fits. Making it is the check, so there is no other.

    Nobody writes to ``data`` afterwards.
    """

    __slots__ = ("data", "header", "transaction_v2")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        """Raises CorruptBatch."""
        header = parse_header(data)
        if header.length != len(data):
            raise CorruptBatch(f"{len(data)} bytes were given for one batch of {header.length}")
        verify_crc(data, header)
        self.data = data
        self.header = header
        self.transaction_v2 = False
        """Whether it is of a transaction of the protocol's second version (KIP-890), whose sequences begin with 0."""

    @classmethod
    def known(
        cls, data: bytes | bytearray | memoryview, header: BatchHeader, *, transaction_v2: bool = False
    ) -> Checked:
        """The batch whose header and checksum the caller has just computed itself."""
        made = cls.__new__(cls)
        made.data, made.header, made.transaction_v2 = data, header, transaction_v2
        return made

    def __len__(self) -> int:
        return self.header.length


def largest_time(header: BatchHeader, times: RecordTimes) -> int:
    """The largest timestamp (ms) of a batch's records, -1 if none has one. Kafka counts no time before 1970 either."""
    return max(_NO_TIME, header.base_timestamp + times.largest)


def true_head(batch: Checked, times: RecordTimes, *, append_time: bool | None = None) -> Checked:
    """The batch with the largest timestamp that its records, walked to ``times``, really have, and no delete horizon.

    It is the same one where its head is right, else a copy with another head and checksum. ``append_time`` says whose
    time the batch has, where that is not for its head to say; the log's own time is no matter of the records. A delete
    horizon is set by compaction only: one that a producer sent would make the next compaction drop its tombstones.
    """
    header = batch.header
    attributes = header.attributes & ~DELETE_HORIZON
    if append_time is not None:
        attributes = attributes | APPEND_TIME if append_time else attributes & ~APPEND_TIME
    newest = header.max_timestamp if attributes & APPEND_TIME else largest_time(header, times)
    if newest == header.max_timestamp and attributes == header.attributes:
        return batch
    data = bytearray(batch.data)
    struct.pack_into(">h", data, _ATTRIBUTES_AT, attributes)
    struct.pack_into(">q", data, _MAX_TIME_AT, newest)
    crc = crc32c(data, CRC_START)
    struct.pack_into(">I", data, _CRC_AT, crc)
    return Checked.known(data, header._replace(crc=crc, attributes=attributes, max_timestamp=newest))


def plain_records(
    data: bytes | bytearray | memoryview, header: BatchHeader, max_bytes: int = _MAX_INFLATED_BYTES
) -> memoryview | bytes:
    """A batch's records, inflated to at most ``max_bytes``. Raises CorruptBatch, InflatesTooFar."""
    packed = memoryview(data)[header.position + HEADER_BYTES : header.end]
    if header.codec is Codec.NONE:
        return packed
    from penstock.columnar.compression import inflate  # loads Arrow: a node that never sees compression stays small

    return bytes(inflate(header.codec, packed, max_bytes))


def verified(data: bytes | bytearray | memoryview) -> Checked:
    """One whole batch from a source that nobody has looked at: checksum, records, and a head that agrees with them.

    Markers of the log have no records of that kind. Raises CorruptBatch.
    """
    batch = Checked(data)
    header = batch.header
    if header.control:
        return batch
    if header.record_count != header.last_offset_delta + 1:
        raise CorruptBatch(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    return true_head(batch, walk_records(plain_records(data, header), header.record_count))
