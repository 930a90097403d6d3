"""A batch of one record, with its header at hand: what is written for a service that sends one message and waits.

The same bytes as `few.encode_few`, without what that does for several records. What must not live here: what key, value
and headers mean to a protocol. Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c

from penstock.columnar.batch import HEADER_BYTES, BatchHeader
from penstock.columnar.checked import Checked
from penstock.columnar.few import varint

__all__ = ["encode_one", "header_name"]

_HEAD: Final = struct.Struct(">qiibI")
_SUMMED: Final = struct.Struct(">hiqqqhii")
"""What the checksum covers: attributes, last offset delta, times, producer, how many records."""
_LENGTH_BEFORE: Final = 12
_BEGIN: Final = b"\0\0\0"
"""No attributes, no time and no place after the batch's first record."""
_NULL: Final = b"\x01"


def header_name(name: str) -> bytes:
    """A header's name as it stands before its value."""
    encoded = name.encode()
    return varint(len(encoded)) + encoded


def encode_one(key: bytes | None, value: bytes | None, headers: list[bytes], timestamp_ms: int) -> Checked:
    """The batch of one uncompressed record that was made at ``timestamp_ms``; its offset is 0.

    ``headers`` are pairs, one behind the other: a `header_name`, then its value, which is not empty, behind its length.
    """
    body = b"".join((
        _BEGIN,
        _NULL if key is None else varint(len(key)) + key,
        _NULL if value is None else varint(len(value)) + value,
        varint(len(headers)),
        *headers,
    ))  # fmt: skip
    summed = _SUMMED.pack(0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + varint(len(body)) + body
    crc: int = google_crc32c.value(summed)
    length = len(summed) + _HEAD.size
    data = _HEAD.pack(0, length - _LENGTH_BEFORE, -1, 2, crc) + summed
    return Checked.known(data, BatchHeader(0, length, -1, 2, crc, 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1, 0))


assert _HEAD.size + _SUMMED.size == HEADER_BYTES
