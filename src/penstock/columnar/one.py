"""A batch of one record, with its header at hand: what is written for a service that sends one message and waits.

The same bytes as `few.encode_few`, without what that does for several records. What must not live here: what key, value
and headers mean to a protocol. Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Final

import google_crc32c

from penstock.columnar.batch import APPEND_TIME, HEADER_BYTES, BatchHeader
from penstock.columnar.checked import Checked
from penstock.columnar.few import varint

__all__ = ["encode_one", "header_name"]

_HEAD: Final = struct.Struct(">qiibI")
_HEAD_BYTES: Final = _HEAD.size
_SUMMED: Final = struct.Struct(">hiqqqhii")
"""What the checksum covers: attributes, last offset delta, times, producer, how many records."""
_LENGTH_BEFORE: Final = 12
_BEGIN: Final = b"\0\0\0"
"""No attributes, no time and no place after the batch's first record."""
_NULL: Final = b"\x01"
_BEGIN_WITHOUT_KEY: Final = _BEGIN + _NULL
_NO_HEADERS: Final = b"\0"
_crc: Final[Callable[[bytes], int]] = google_crc32c.value
_length = functools.lru_cache(1_024)(varint)
"""What is sent one by one mostly has few lengths."""

_header: Final = functools.partial(tuple.__new__, BatchHeader)
"""`BatchHeader` of all its fields, without the function that would take them one by one."""


def header_name(name: str) -> bytes:
    """A header's name as it stands before its value."""
    encoded = name.encode()
    return varint(len(encoded)) + encoded


def encode_one(
    key: bytes | None, value: bytes | None, headers: Sequence[bytes], timestamp_ms: int, *, append_time: bool = False
) -> Checked:
    """The batch of one uncompressed record that was made at ``timestamp_ms``; its offset is 0.

    ``headers`` are a piece each: a `header_name`, then its value behind its length. With ``append_time`` the time is
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
    return Checked.known(
        _HEAD.pack(0, length - _LENGTH_BEFORE, -1, 2, crc) + summed,
        _header((0, length, -1, 2, crc, attributes, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1, 0)),
    )


assert _HEAD_BYTES + _SUMMED.size == HEADER_BYTES
