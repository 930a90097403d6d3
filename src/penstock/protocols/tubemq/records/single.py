"""One message at a time: for a front, which gets them so, and for whoever looks into one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.errors import CorruptBatch
from penstock.protocols.tubemq.kernels.attributes import decoded, read_attributes, write_attributes
from penstock.protocols.tubemq.kernels.interface import NO_TIME

__all__ = ["HAS_ATTRIBUTES", "Unpacked", "checksum", "pack", "unpack"]

HAS_ATTRIBUTES: Final = 1
"""The bit of ``flag`` that says that a payload begins with attributes."""

_LENGTH: Final = 4


class Unpacked(NamedTuple):
    """What a payload holds. ``timestamp_ms`` -1: none said; ``filter_item`` also stands among the headers."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    filter_item: str | None


def checksum(payload: bytes | memoryview) -> int:
    """Return a payload's checksum: CRC-32 (IEEE 802.3) without its highest bit."""
    return zlib.crc32(payload) & 0x7FFFFFFF


def pack(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    timestamp_ms: int = NO_TIME,
) -> tuple[bytes, int]:
    """Return (payload, flag) of one record."""
    attributes, _ = write_attributes(key, value, timestamp_ms, [(name.encode(), text) for name, text in headers])
    body = value or b""
    if not attributes:
        return body, 0
    return len(attributes).to_bytes(_LENGTH, "big") + attributes + body, HAS_ATTRIBUTES


def unpack(payload: bytes | memoryview, flag: int) -> Unpacked:
    """Read one payload. Raises CorruptBatch where its attributes are longer than it is."""
    source = bytes(payload)
    if not flag & HAS_ATTRIBUTES:
        return _around(_NOTHING_SAID, source)
    length = int.from_bytes(source[:_LENGTH], "big", signed=True)
    if len(source) < _LENGTH or not 0 <= length <= len(source) - _LENGTH:
        raise CorruptBatch(f"a message of {len(source)} bytes says that {length} of them are attributes")
    body = _LENGTH + length
    attributes = source[_LENGTH:body]
    return _around(_read(attributes), source[body:])


class _Said(NamedTuple):
    """What attributes say, whatever the body is."""

    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    filter_item: str | None
    is_null: bool


_NOTHING_SAID: Final = _Said(None, (), NO_TIME, None, False)


def _around(said: _Said, body: bytes) -> Unpacked:
    value = None if said.is_null and not body else body
    return Unpacked(said.key, value, said.headers, said.timestamp_ms, said.filter_item)


def _read(attributes: bytes) -> _Said:
    found = read_attributes(attributes, 0, len(attributes))
    headers = tuple(
        (
            decoded(attributes, header.name_at, header.name_size, header.name_text).decode(errors="replace"),
            None if header.value_at < 0 else decoded(attributes, header.value_at, header.value_size, header.value_text),
        )
        for header in found.headers
    )
    item = None if found.filter_at < 0 else attributes[found.filter_at : found.filter_to].decode(errors="replace")
    key = None if found.key_at < 0 else decoded(attributes, found.key_at, found.key_size, 1)
    return _Said(key, headers, found.time_ms, item, found.is_null)
