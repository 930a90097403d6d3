"""The fields of a protobuf message without its declaration: numbers and where their bytes are, nothing copied.

For what is too large to be copied on the way through the protobuf library: the payload inside an envelope. Lengths are
checked against what is left. Source: protobuf encoding guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.errors import ProtocolViolation

__all__ = ["delimited", "field_end", "fields", "read_varint", "varint"]

_VARINT: Final = 0
_LENGTH: Final = 2
_ONE_BYTE: Final = tuple(bytes((each,)) for each in range(128))
_FIXED: Final = {1: 8, 5: 4}


def varint(value: int) -> bytes:
    """Return a value of 0 or more as a varint."""
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(view: memoryview, at: int) -> tuple[int, int]:
    """Return (value as 64 unsigned bits, position after it). Raises ProtocolViolation."""
    if at < len(view) and (byte := view[at]) < 128:
        return byte, at + 1  # nearly all of them
    value = shift = 0
    for position in range(at, min(at + 10, len(view))):
        byte = view[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, position + 1
        shift += 7
    raise ProtocolViolation(f"the varint at byte {at} of {len(view)} is cut off or longer than ten bytes")


def delimited(view: memoryview, at: int) -> tuple[memoryview, int]:
    """Return (the bytes behind the length at ``at``, position after them). Raises ProtocolViolation."""
    length, begin = read_varint(view, at)
    if length > len(view) - begin:
        raise ProtocolViolation(f"length {length} at byte {at} goes beyond the {len(view)} bytes there are")
    return view[begin : begin + length], begin + length


def fields(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield (number, varint as 64 unsigned bits or bytes) of each field. Raises ProtocolViolation."""
    at = 0
    while at < len(view):
        number, value, at = _field(view, at)
        yield number, value


def field_end(view: memoryview, at: int) -> int:
    """Return the position after the field at ``at``. Raises ProtocolViolation."""
    return _field(view, at)[2]


def _field(view: memoryview, at: int) -> tuple[int, int | memoryview, int]:
    tag, after = read_varint(view, at)
    number, kind = tag >> 3, tag & 7
    if kind == _VARINT:
        value, after = read_varint(view, after)
        return number, value, after
    if kind == _LENGTH:
        piece, after = delimited(view, after)
        return number, piece, after
    if kind in _FIXED and _FIXED[kind] <= len(view) - after:
        return number, view[after : after + _FIXED[kind]], after + _FIXED[kind]
    raise ProtocolViolation(f"field {number} at byte {at} has wire type {kind}, or is cut off")
