"""Batches on their way into a log: checked once, as deep as storing needs, and in the codec that the topic wants."""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.records.batch import (
    APPEND_TIME,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    BatchHeader,
    BytesLike,
    as_view,
    crc32c,
    parse_header,
    verify_crc,
)

__all__ = [
    "RecordTimes",
    "Target",
    "ValidatedBatch",
    "largest_time",
    "longest_record",
    "plain_records",
    "recompressed",
    "record_heads",
    "target_of",
    "true_head",
    "verified",
    "walk_records",
]

# What the records of a batch say of themselves, looked at only as far as storing them needs.
#
# The head of a batch repeats what its records say: how many there are, their last place, their largest time. A producer
# can get that wrong, and retention, time lookups and compaction rely on it, so a node reads it from the records here.
# Plain Python: a node loads no compiler.
#
# Source: Kafka protocol, record v2: length, attributes, timestamp delta, offset delta, key, value, headers (KIP-98).
_LEAST: Final = 6
"""The smallest record after its length: attributes and five fields of one byte."""

_BLOCK: Final = 64
"""Offset deltas in a block of so many records differ in their first byte only, which is twice the place there."""

_HEAD, _WIDE_HEAD = struct.Struct("<HI").unpack_from, struct.Struct("<HQ").unpack_from
"""The first two bytes of a record, which mostly are its length, and the four or eight behind them."""
_AFTER_SHORT, _WIDE_AFTER_SHORT = struct.Struct("<I").unpack_from, struct.Struct("<Q").unpack_from
"""What stands behind a length of one byte."""
_NARROW: Final = 32
_NOTHING: Final = bytes(3)
_PADDING: Final = bytes(10)
"""Behind the records, so that the last one can be read likewise."""

_WIDEST_TIME: Final = 3
"""Bytes of a time delta (17 minutes) that are compared together with the offset delta; longer ones are read singly."""
_TIME_BITS: Final = 0x7F7F7F00
"""The bits of a head that say the time, where that takes three bytes. The first byte is the attributes, and the highest
bit of each of the others says that another one follows: where those change, the next head is read singly."""
_COLUMNS_PAY: Final = 8


class RecordTimes(NamedTuple):
    """The least and the largest timestamp delta in a batch, in ms after the batch's base timestamp."""

    least: int
    largest: int


_AT_BASE: Final = RecordTimes(0, 0)


def walk_records(records: bytes | memoryview, count: int) -> RecordTimes:
    """Read the heads of all ``count`` records. Raises CorruptBatch.

    That is raised where they are more or fewer, where their lengths do not add up, and where offset deltas are not
    0, 1, 2, … No record behind the last one that ``count`` admits to is looked at. A record costs 0.1 to 0.2 µs, less
    where all have one length, and twice as much where each has another time.
    """
    if count == 1 and _is_lone(records):
        return _AT_BASE
    data, end = b"".join((records, _PADDING)), len(records)
    least: int | None = None
    largest = at = row = 0
    try:
        while row < count and at < end:
            begin = at
            at, time, width, place, head = _record_head(data, at, end)
            if place != row:
                raise CorruptBatch(f"record {row} says that it is record {place}")
            if least is None:
                least = largest = time
            elif time < least:
                least = time
            elif time > largest:
                largest = time
            row += 1
            rest = min(count - row, -row % _BLOCK)
            if not rest or width > _WIDEST_TIME:
                continue
            # The others of the block are compared with what they should be if they have the same time.
            fixed = int.from_bytes(data[head : head + 1 + width], "little")
            if row > _BLOCK:
                fixed |= _offset_bits(row - 1) << 8 + 8 * width
            if rest >= _COLUMNS_PAY and _alike(data, begin, at, rest, end):
                at, row = at + rest * (at - begin), row + rest
                continue
            at, row, least, largest = _run(data, at, row, rest, (fixed, width), (least, largest))
    except (IndexError, struct.error):
        at = -1
    if at != end or row != count:
        if at > end or at < 0:
            raise CorruptBatch(f"record {max(row - 1, 0)} does not end with the batch")
        more = f"more than {count}" if at < end else f"{row}"
        raise CorruptBatch(f"{more} records where the header says {count}")
    return RecordTimes(least or 0, largest)


def _is_lone(records: bytes | memoryview) -> bool:
    """Whether one record fills ``records``, and has neither attributes nor deltas: how clients send single ones."""
    try:
        size, at = records[0], 1
        if size > 127:
            size, at = size & 127 | records[1] << 7, 2  # a longer length does not fit in what follows
        whole = at + (size >> 1) == len(records) and not size & 1 and size >= 2 * _LEAST
        return whole and records[at : at + 3] == _NOTHING
    except IndexError:
        return False


def _run(
    data: bytes, at: int, row: int, rest: int, first: tuple[int, int], times: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Walk on over up to ``rest`` records of a block whose heads are as wide as that before them.

    ``first`` is how that head begins, with the offset delta of the block's first record, and the bytes of its time.
    Returns where it stopped, at which record, and the least and largest time so far.
    """
    fixed, width = first
    least, largest = times
    shift = 8 + 8 * width
    bits = shift + (8 if row <= _BLOCK else 8 * _offset_width(row - 1))
    unpack, after = (_HEAD, _AFTER_SHORT) if bits <= _NARROW else (_WIDE_HEAD, _WIDE_AFTER_SHORT)
    mask, time_bits, steps = (1 << bits) - 1, _TIME_BITS & (1 << shift) - 1, _steps()
    place = row % _BLOCK
    lows = _lows(width)[place : place + rest]
    for low in lows:
        size, head = unpack(data, at)
        if not size & 128:
            (head,) = after(data, at + 1)
        changed = head & mask ^ fixed + low
        if changed:
            if changed & ~time_bits:
                return at, row + (low - lows[0] >> shift + 1), least, largest
            fixed ^= changed  # another time, as wide as that before
            coded = fixed & time_bits
            time = coded >> 8 & 127 | coded >> 9 & 0x3F80 | coded >> 10 & 0x1FC000
            time = (time >> 1) ^ -(time & 1)
            if time < least:
                least = time
            elif time > largest:
                largest = time
        at += steps[size]  # a step of 0 ends the walk: the next record cannot be the same one again
    return at, row + rest, least, largest


def _alike(data: bytes, begin: int, stop: int, rest: int, end: int) -> bool:
    """Whether the ``rest`` records from ``stop`` on have the length and the time of the one at ``begin``.

    Then each byte of their heads is a column of the data with a regular distance, which is compared as a whole.
    """
    size = stop - begin
    after = stop + rest * size
    if after > end or data[after - size] != data[begin] or data[stop] != data[begin]:
        return False
    at = begin
    while data[at] & 128:  # the length
        at += 1
    at += 2
    while data[at] & 128:  # attributes and time
        at += 1
    at += 1
    for column in range(begin, at):
        if data[column + size : column + rest * size + 1 : size] != data[column : column + 1] * rest:
            return False
    first = data[at]
    if data[at + size : at + rest * size + 1 : size] != bytes(range(first + 2, first + 2 * rest + 2, 2)):
        return False
    while data[at] & 128:
        at += 1
        if data[at + size : at + rest * size + 1 : size] != data[at : at + 1] * rest:
            return False
    return True


def _record_head(data: bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Where the record at ``at`` ends, its time delta, the bytes of that, its offset delta, and where its length ends.

    Raises CorruptBatch.
    """
    size, at = _varint(data, at)
    stop = at + (size >> 1)
    if size & 1 or size < 2 * _LEAST or stop > end:
        raise CorruptBatch("a record has a length that does not fit")
    time, inner = _varint(data, at + 1)
    offset, last = _varint(data, inner)
    if last > stop - 3:
        raise CorruptBatch("a record ends within its own head")
    return stop, (time >> 1) ^ -(time & 1), inner - at - 1, (offset >> 1) ^ -(offset & 1), at


def _offset_bits(row: int) -> int:
    """The offset delta of the first record of the block that ``row`` is in, as bits."""
    bits, value, at = 0, 2 * (row - row % _BLOCK), 0
    while value > 127:
        bits |= (value & 127 | 128) << at
        value >>= 7
        at += 8
    return bits | value << at


def _offset_width(row: int) -> int:
    return max(1, ((2 * row).bit_length() + 6) // 7)


@functools.cache
def _steps() -> array[int]:
    """The whole size of a record by its first two bytes; 0 for a length that is wrong or takes three bytes."""
    steps = array("H", bytes(2 << 16))
    for low in range(2 * _LEAST, 128, 2):
        steps[low::256] = array("H", [1 + (low >> 1)]) * 256
    for high in range(1, 128):  # behind a length's first byte, which has its highest bit set
        begin = high << 8 | 128
        steps[begin : begin + 128 : 2] = array("H", range(2 + (high << 6), 2 + (high << 6) + 64))
    return steps


@functools.cache
def _lows(width: int) -> tuple[int, ...]:
    """By place in the block: the first byte of the offset delta behind a time delta of ``width`` bytes."""
    return tuple(2 * place << 8 + 8 * width for place in range(_BLOCK))


def record_heads(data: bytes, most: int) -> list[tuple[int, int, bool]]:
    """Timestamp delta in ms, offset delta, and whether there is a key, of each record, or of ``most`` and one.

    Nothing behind the key's length is looked at. Raises CorruptBatch.
    """
    heads: list[tuple[int, int, bool]] = []
    at, end = 0, len(data)
    try:
        while at < end and len(heads) <= most:
            size, at = _varint(data, at)
            stop = at + (size >> 1)
            if size & 1 or size < 2 * _LEAST or stop > end:
                raise CorruptBatch(f"record {len(heads)} has a length that does not fit")
            time, inner = _varint(data, at + 1)
            place, inner = _varint(data, inner)
            behind = inner
            key, inner = _varint(data, inner)
            if inner > stop or behind > stop - 3:
                raise CorruptBatch(f"record {len(heads)} ends within its own head")
            heads.append(((time >> 1) ^ -(time & 1), (place >> 1) ^ -(place & 1), not key & 1))
            at = stop
    except IndexError:
        raise CorruptBatch(f"record {len(heads)} is cut off") from None
    return heads


def longest_record(data: bytes) -> int:
    """Bytes of the longest of records that were walked already, without its length in front."""
    at = longest = 0
    while at < len(data):
        size, at = _varint(data, at)
        longest = max(longest, size >> 1)
        at += size >> 1
    return longest


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The raw (zigzag) value and the position after it. Raises IndexError at the end, CorruptBatch after ten bytes."""
    byte = data[at]
    if byte < 128:  # nearly all of them
        return byte, at + 1
    bits = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            return bits, at
        shift += 7
    raise CorruptBatch("a varint of more than ten bytes")


_MAX_INFLATED_BYTES: Final = 256 << 20
_NO_TIME: Final = -1
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIME_AT = 17, 21, 35


class ValidatedBatch:
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
    ) -> ValidatedBatch:
        """The batch whose header and checksum the caller has just computed itself."""
        made = cls.__new__(cls)
        made.data, made.header, made.transaction_v2 = data, header, transaction_v2
        return made

    def __len__(self) -> int:
        return self.header.length


def largest_time(header: BatchHeader, times: RecordTimes) -> int:
    """The largest timestamp (ms) of a batch's records, -1 if none has one. Kafka counts no time before 1970 either."""
    return max(_NO_TIME, header.base_timestamp + times.largest)


def true_head(batch: ValidatedBatch, times: RecordTimes, *, append_time: bool | None = None) -> ValidatedBatch:
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
    return ValidatedBatch.known(data, header._replace(crc=crc, attributes=attributes, max_timestamp=newest))


def plain_records(
    data: bytes | bytearray | memoryview, header: BatchHeader, max_bytes: int = _MAX_INFLATED_BYTES
) -> memoryview | bytes:
    """A batch's records, inflated to at most ``max_bytes``. Raises CorruptBatch, InflatesTooFar."""
    packed = memoryview(data)[header.position + HEADER_BYTES : header.end]
    if header.codec is Codec.NONE:
        return packed
    from penstock.records.compression import inflate  # loads Arrow: a node that never sees compression stays small

    return bytes(inflate(header.codec, packed, max_bytes))


def verified(data: bytes | bytearray | memoryview) -> ValidatedBatch:
    """One whole batch from a source that nobody has looked at: checksum, records, and a head that agrees with them.

    Markers of the log have no records of that kind. Raises CorruptBatch.
    """
    batch = ValidatedBatch(data)
    header = batch.header
    if header.control:
        return batch
    if header.record_count != header.last_offset_delta + 1:
        raise CorruptBatch(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    return true_head(batch, walk_records(plain_records(data, header), header.record_count))


# Batches in the codec that a topic wants: what ``compression.type`` and its levels mean for what is stored. It costs
# time, so a node does it outside its event loop. Source: Kafka documentation, "Topic-Level Configs"; KIP-390 (levels).
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LENGTH_AT, _LENGTH_AFTER, _STORED_CRC_AT, _CODEC_AT, _CODEC_BITS = 8, 12, 17, 22, 7


@dataclass(frozen=True, slots=True)
class Target:
    """The codec that a topic is stored with, and how hard it tries; None is the codec's own default."""

    codec: Codec
    level: int | None = None

    def meets(self, batch: BytesLike) -> bool:
        """Whether ``batch`` has that codec already: then it stays as it is, whatever its level."""
        return as_view(batch)[_CODEC_AT] & _CODEC_BITS == self.codec


def target_of(options: Mapping[str, str]) -> Target | None:
    """What a topic with these options set wants; None where batches stay as their producers made them."""
    kind = options.get("compression.type", "producer")
    if kind not in _CODECS:
        return None
    level = options.get(f"compression.{kind}.level")
    return Target(_CODECS[kind], None if level is None else int(level))


def recompressed(batch: BytesLike, target: Target, max_inflated_bytes: int) -> bytes:
    """The batch with its records in another codec; all else stays. Raises CorruptBatch."""
    from penstock.records.compression import (
        compress,
        inflate,  # a node that never compresses does without NumPy
    )

    header, view = parse_header(batch), as_view(batch)
    plain = inflate(header.codec, view[HEADER_BYTES : header.length], max_inflated_bytes)
    packed = bytearray(view[:HEADER_BYTES])
    packed += compress(target.codec, plain, target.level)
    struct.pack_into(">i", packed, _LENGTH_AT, len(packed) - _LENGTH_AFTER)
    packed[_CODEC_AT] = packed[_CODEC_AT] & ~_CODEC_BITS | target.codec
    struct.pack_into(">I", packed, _STORED_CRC_AT, crc32c(packed, CRC_START))
    return bytes(packed)
