"""Encodes a handful of records in plain Python: below a hundred, lists cost less than columns.

Also the hashes by which producers place keys, for one key at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import google_crc32c
from msgspec import Struct, field

from penstock.model import Codec
from penstock.records.batch import (
    ANYONE,
    APPEND_TIME,
    BATCH_HEADER,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL,
    Producing,
    crc32c,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FEW", "FewRows", "HeaderPairs", "Rows", "columns_of", "encode_few", "fnv1a", "join", "murmur2", "varint"]

_SMALL: Final = 4_096
_BEFORE_SUM: Final = struct.Struct(">qiibI")
_SUMMED: Final = struct.Struct(">hiqqqhii")
"""A batch header up to its checksum, and the part that the checksum covers."""

FEW: Final = 100
"""Up to so many records are written one by one; more of them by a kernel."""

HeaderPairs: TypeAlias = "Sequence[tuple[str, bytes | None]]"


class FewRows(Struct):
    """Records in order: keys, values, timestamps in ms, and headers by row for those that have some. Do not change it.

    Not frozen: the fast path creates one per record, and frozen instances are five times slower to create.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Mapping[int, HeaderPairs] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """The number of records."""
        return len(self.values)

    def slice(self, first: int, length: int | None = None) -> FewRows:
        """A part of the records."""
        end = self.num_rows if length is None else min(first + length, self.num_rows)
        if not first and end == self.num_rows:
            return self
        headers = {place - first: pairs for place, pairs in self.headers.items() if first <= place < end}
        return FewRows(self.keys[first:end], self.values[first:end], self.timestamps[first:end], headers)

    def picked(self, places: Sequence[int]) -> FewRows:
        """The records at ``places``, in that order."""
        headers = {at: self.headers[place] for at, place in enumerate(places) if place in self.headers}
        return FewRows(
            [self.keys[place] for place in places],
            [self.values[place] for place in places],
            [self.timestamps[place] for place in places],
            headers,
        )

    def columns(self) -> pa.RecordBatch:
        """The same as columns key, value, timestamp and, if any record has some, headers."""
        from penstock.records.encoding import columns_from

        return columns_from(self.keys, self.values, self.timestamps, self.headers)


Rows: TypeAlias = "FewRows | pa.RecordBatch"
"""The two forms that a batch is made from."""


def columns_of(rows: Rows) -> pa.RecordBatch:
    """Return the rows as columns, whichever form they have."""
    return rows.columns() if isinstance(rows, FewRows) else rows


def join(pieces: Sequence[FewRows]) -> FewRows:
    """Concatenate pieces."""
    if len(pieces) == 1:
        return pieces[0]
    headers: dict[int, HeaderPairs] = {}
    before = 0
    for piece in pieces:
        headers.update({before + place: pairs for place, pairs in piece.headers.items()})
        before += piece.num_rows
    return FewRows(
        [key for piece in pieces for key in piece.keys],
        [value for piece in pieces for value in piece.values],
        [timestamp for piece in pieces for timestamp in piece.timestamps],
        headers,
    )


def encode_few(
    rows: FewRows, *, codec: Codec = Codec.NONE, producing: Producing = ANYONE, append_time: bool = False
) -> memoryview:
    """Encode ``rows`` as one batch and return its bytes, writable; the same bytes as from `encoding.encode_v2`.

    ``append_time``: the timestamps are the log's, not the producer's. Arrow and NumPy are loaded only to compress.
    """
    first_ms = rows.timestamps[0]
    if len(rows.values) == 1 and not rows.headers:
        records = _only(rows.keys[0], rows.values[0])
    else:
        records = b"".join(_records(rows, first_ms))
    if codec is not Codec.NONE:
        from penstock.records.compression import compress

        records = bytes(compress(codec, records))
    attributes = codec | (TRANSACTIONAL if producing.transactional else 0) | (APPEND_TIME if append_time else 0)
    count = len(rows.values)
    if len(records) <= _SMALL:  # copying is cheaper than a second pass for the checksum
        summed = _SUMMED.pack(
            attributes, count - 1, first_ms, max(rows.timestamps),
            producing.producer_id, producing.producer_epoch, producing.base_sequence, count,
        ) + records  # fmt: skip
        small = bytearray(_BEFORE_SUM.pack(0, len(summed) + CRC_START - 12, -1, 2, google_crc32c.value(summed)))
        small += summed
        return memoryview(small)
    out = bytearray(HEADER_BYTES)
    out += records
    BATCH_HEADER.pack_into(
        out, 0, 0, len(out) - 12, -1, 2, 0, attributes, count - 1, first_ms, max(rows.timestamps),
        producing.producer_id, producing.producer_epoch, producing.base_sequence, count,
    )  # fmt: skip
    struct.pack_into(">I", out, 17, crc32c(out, CRC_START))
    return memoryview(out)


def _only(key: bytes | None, value: bytes | None) -> bytes:
    """Encode the only record of a batch, without headers: the usual case here."""
    body = b"".join((
        _FIRST,
        _NULL if key is None else varint(len(key)) + key,
        _NULL if value is None else varint(len(value)) + value,
        b"\0",
    ))  # fmt: skip
    return varint(len(body)) + body


def _records(rows: FewRows, first_ms: int) -> Iterable[bytes]:
    places = range(rows.num_rows)
    for place, key, value, timestamp in zip(places, rows.keys, rows.values, rows.timestamps, strict=True):
        pairs = rows.headers.get(place)
        body = b"".join((
            _FIRST if not place and timestamp == first_ms else b"\0" + varint(timestamp - first_ms) + varint(place),
            _NULL if key is None else varint(len(key)) + key,
            _NULL if value is None else varint(len(value)) + value,
            _headers(pairs) if pairs else b"\0",
        ))  # fmt: skip
        yield varint(len(body))
        yield body


def _headers(pairs: HeaderPairs) -> bytes:
    parts = [varint(len(pairs))]
    for name, value in pairs:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded, _NULL if value is None else varint(len(value)), value or b"")
    return b"".join(parts)


def varint(value: int) -> bytes:
    """Encode a zigzag varint."""
    bits = (value << 1) ^ (value >> 63)
    if bits < 128:
        return _ONE_BYTE[bits]
    if bits < 16_384:
        return bytes((bits & 127 | 128, bits >> 7))
    out = bytearray()
    while bits > 127:
        out.append(bits & 127 | 128)
        bits >>= 7
    out.append(bits)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes((each,)) for each in range(128))
_FIRST: Final = b"\0\0\0"
"""No attributes, and time and offset of the batch's first record."""

_NULL: Final = b"\x01"
"""A length of -1."""

# Hashes by which producers of several makes agree on the partition of a key. For whole columns, the client has its own.
#
# Sources: murmur2 as Kafka's Java client computes it (``Utils.murmur2``, seed 0x9747b28c); FNV-1a as librdkafka does
# (``rd_fnv1a``), which takes the absolute value of the signed number, as Sarama.
_PRIME = 0x01000193
_BASIS = 0x811C9DC5
_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    length = len(data)
    whole = length & ~3
    h = _SEED ^ length
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def fnv1a(data: bytes) -> int:
    """The 32-bit hash; the absolute value of one that would be negative as a signed number."""
    found = _BASIS
    for each in data:
        found = (found ^ each) * _PRIME & _MASK
    return found if found < 2**31 else 2**32 - found
