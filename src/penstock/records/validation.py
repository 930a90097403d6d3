"""Batches on their way into a log: checked once, as deeply as storing needs, and recompressed for the topic.

`ValidatedBatch` is a batch with a valid checksum, `walk_records` reads the heads of its records, `true_head` corrects
the header, and `recompressed` changes the codec. Plain Python, because a node loads no compiler.
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

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

# The records of a batch, read only as far as storing them needs.
#
# A batch header repeats what its records say: their number, last offset delta and largest time. A producer can get that
# wrong, and retention, time lookups and compaction rely on it, so a node reads it from the records.
#
# Source: Kafka protocol, record v2: length, attributes, timestamp delta, offset delta, key, value, headers (KIP-98).
_LEAST: Final = 6
"""The smallest record after its length: attributes and five fields of one byte."""

_BLOCK: Final = 64
"""In a block of so many records offset deltas differ only in their first byte, which is twice the index in the block.
"""

_HEAD, _WIDE_HEAD = struct.Struct("<HI").unpack_from, struct.Struct("<HQ").unpack_from
"""The first two bytes of a record, usually its length, and the four or eight after them."""
_AFTER_SHORT, _WIDE_AFTER_SHORT = struct.Struct("<I").unpack_from, struct.Struct("<Q").unpack_from
"""The bytes after a length of one byte."""
_NARROW: Final = 32
_NOTHING: Final = bytes(3)
_PADDING: Final = bytes(10)
"""Appended to the records, so that the last one can be read in the same way."""

_WIDEST_TIME: Final = 3
"""Time deltas up to so many bytes (17 minutes) are compared together with the offset delta; longer ones separately."""
_TIME_BITS: Final = 0x7F7F7F00
"""The bits of a head that contain the time, if that takes three bytes. The first byte is the attributes, and the
highest bit of each other byte says that another one follows; if those change, the next head is read separately."""
_COLUMNS_PAY: Final = 8


class RecordTimes(NamedTuple):
    """The smallest and the largest timestamp delta in a batch, in ms after the batch's base timestamp."""

    least: int
    largest: int


_AT_BASE: Final = RecordTimes(0, 0)


def walk_records(records: bytes | memoryview, count: int) -> RecordTimes:
    """Read the heads of all ``count`` records. Raises CorruptBatch.

    It is raised if there are more or fewer records, if their lengths do not add up, or if offset deltas are not 0, 1,
    2, … Records behind the last of ``count`` are not read. A record takes 0.1 to 0.2 µs, less if all have the same
    length, and twice as much if each has a different time.
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
            # The rest of the block is compared with what it should be if the records have the same time.
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
    """Whether one record fills ``records`` and has no attributes and no deltas, as clients send single records."""
    try:
        size, at = records[0], 1
        if size > 127:
            size, at = size & 127 | records[1] << 7, 2  # a length of three bytes fails the test below
        whole = at + (size >> 1) == len(records) and not size & 1 and size >= 2 * _LEAST
        return whole and records[at : at + 3] == _NOTHING
    except IndexError:
        return False


def _run(
    data: bytes, at: int, row: int, rest: int, first: tuple[int, int], times: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Walk over up to ``rest`` records of a block whose heads are as wide as the previous one.

    ``first`` is the beginning of that head, with the offset delta of the block's first record, and the width of its
    time. Returns the position and the record where it stopped, and the smallest and largest time so far.
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
            fixed ^= changed  # another time, of the same width
            coded = fixed & time_bits
            time = coded >> 8 & 127 | coded >> 9 & 0x3F80 | coded >> 10 & 0x1FC000
            time = (time >> 1) ^ -(time & 1)
            if time < least:
                least = time
            elif time > largest:
                largest = time
        at += steps[size]  # a step of 0 ends the walk, because the next record cannot be the same one again
    return at, row + rest, least, largest


def _alike(data: bytes, begin: int, stop: int, rest: int, end: int) -> bool:
    """Whether the ``rest`` records from ``stop`` on have the length and the time of the record at ``begin``.

    Then each byte of their heads is at a regular distance in the data, and all of them are compared as a slice.
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
    """Return the record's end, its time delta, the width of that, its offset delta, and where its length ends.

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
    """The offset delta of the first record in the block of ``row``, as encoded bits."""
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
    """The whole size of a record by its first two bytes; 0 for a length that is invalid or takes three bytes."""
    steps = array("H", bytes(2 << 16))
    for low in range(2 * _LEAST, 128, 2):
        steps[low::256] = array("H", [1 + (low >> 1)]) * 256
    for high in range(1, 128):  # after a first byte with its highest bit set
        begin = high << 8 | 128
        steps[begin : begin + 128 : 2] = array("H", range(2 + (high << 6), 2 + (high << 6) + 64))
    return steps


@functools.cache
def _lows(width: int) -> tuple[int, ...]:
    """By index in the block: the first byte of the offset delta after a time delta of ``width`` bytes."""
    return tuple(2 * place << 8 + 8 * width for place in range(_BLOCK))


def record_heads(data: bytes, most: int) -> list[tuple[int, int, bool]]:
    """Return (timestamp delta in ms, offset delta, whether it has a key) of each record, up to ``most`` + 1 records.

    Nothing after the key's length is read. Raises CorruptBatch.
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
    """The size of the longest record, without its length prefix. The records must have been walked before."""
    at = longest = 0
    while at < len(data):
        size, at = _varint(data, at)
        longest = max(longest, size >> 1)
        at += size >> 1
    return longest


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the raw (zigzag) value and its end. Raises IndexError at the end, CorruptBatch after ten bytes."""
    byte = data[at]
    if byte < 128:  # the usual case
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
    """One whole batch v2 with nothing behind it and a valid checksum. Creating it is the check.

    ``data`` must not be changed afterwards.
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
        """Whether its transaction uses the second version of the protocol (KIP-890), in which sequences begin with 0.
        """

    @classmethod
    def known(
        cls, data: bytes | bytearray | memoryview, header: BatchHeader, *, transaction_v2: bool = False
    ) -> ValidatedBatch:
        """Wrap a batch whose header and checksum the caller has just computed."""
        made = cls.__new__(cls)
        made.data, made.header, made.transaction_v2 = data, header, transaction_v2
        return made

    def __len__(self) -> int:
        return self.header.length


def largest_time(header: BatchHeader, times: RecordTimes) -> int:
    """The largest timestamp (ms) of a batch's records, -1 if none has one. Like Kafka, ignores times before 1970."""
    return max(_NO_TIME, header.base_timestamp + times.largest)


def true_head(batch: ValidatedBatch, times: RecordTimes, *, append_time: bool | None = None) -> ValidatedBatch:
    """Return the batch with the largest timestamp that its records (``times``) really have, and no delete horizon.

    It is the same object if its header is right, else a copy with a corrected header and checksum. ``append_time``
    overrides whether the batch has the log's time; that time does not depend on the records. Only compaction may set a
    delete horizon; one from a producer would make the next compaction drop its tombstones.
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
    """Return a batch's records, decompressed to at most ``max_bytes``. Raises CorruptBatch, InflatesTooFar."""
    packed = memoryview(data)[header.position + HEADER_BYTES : header.end]
    if header.codec is Codec.NONE:
        return packed
    from penstock.records.compression import inflate  # loads NumPy: a node that never sees compression stays small

    return bytes(inflate(header.codec, packed, max_bytes))


def verified(data: bytes | bytearray | memoryview) -> ValidatedBatch:
    """Check one whole batch from an untrusted source: checksum, records, and a header that agrees with them.

    Markers of the log have no ordinary records to check. Raises CorruptBatch.
    """
    batch = ValidatedBatch(data)
    header = batch.header
    if header.control:
        return batch
    if header.record_count != header.last_offset_delta + 1:
        raise CorruptBatch(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    return true_head(batch, walk_records(plain_records(data, header), header.record_count))


# Recompressing batches for the codec that a topic wants (``compression.type`` and its levels). It takes time, so a node
# does it outside its event loop. Source: Kafka documentation, "Topic-Level Configs"; KIP-390 (levels).
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LENGTH_AT, _LENGTH_AFTER, _STORED_CRC_AT, _CODEC_AT, _CODEC_BITS = 8, 12, 17, 22, 7


class Target(Struct, frozen=True):
    """The codec and level with which a topic is stored; level None is the codec's default."""

    codec: Codec
    level: int | None = None

    def meets(self, batch: BytesLike) -> bool:
        """Whether ``batch`` has that codec already; then it stays as it is, whatever its level."""
        return as_view(batch)[_CODEC_AT] & _CODEC_BITS == self.codec


def target_of(options: Mapping[str, str]) -> Target | None:
    """Return the codec for a topic with these options; None if batches stay as their producers made them."""
    kind = options.get("compression.type", "producer")
    if kind not in _CODECS:
        return None
    level = options.get(f"compression.{kind}.level")
    return Target(_CODECS[kind], None if level is None else int(level))


def recompressed(batch: BytesLike, target: Target, max_inflated_bytes: int) -> bytes:
    """Return the batch with its records in another codec; all else stays. Raises CorruptBatch."""
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
