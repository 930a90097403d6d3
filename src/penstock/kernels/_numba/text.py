"""Base64, UTF-8 and protobuf fields, compiled: parts of protocols' own kernels."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._numba.compiling import byte_at, inlined, int64, uint64
from penstock.kernels.interface import Bytes

__all__ = [
    "is_base64",
    "is_utf8",
    "read_base64",
    "read_length",
    "read_unsigned",
    "unsigned_size",
    "write_base64",
    "write_unsigned",
]

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_DIGITS: Final = np.full(256, 255, np.uint8)
_DIGITS[_ALPHABET] = np.arange(64, dtype=np.uint8)


@inlined
def is_base64(data: Bytes, at: int, end: int) -> bool:
    """Whether ``data[at:end]`` is base64."""
    if (end - at) & 3 == 1:
        return False
    for place in range(at, end):  # noqa: SIM110 - numba does not compile generators
        if _DIGITS[byte_at(data, place)] == 255:
            return False
    return True


@inlined
def read_base64(data: Bytes, at: int, out: Bytes, to: int, stop: int) -> None:
    """Decode valid base64 at ``at`` into ``out[to:stop]``."""
    bits, held = int64(0), 0
    while to < stop:
        bits = bits << 6 & 0xFFFFFF | int64(_DIGITS[byte_at(data, at)])
        at += 1
        held += 6
        if held >= 8:
            held -= 8
            out[to] = np.uint8(bits >> held & 255)
            to += 1


@inlined
def write_base64(data: Bytes, at: int, end: int, out: Bytes, to: int) -> int:
    """Write ``data[at:end]`` at ``to`` as base64; return the position after it."""
    while at + 3 <= end:
        bits = byte_at(data, at) << 16 | byte_at(data, at + 1) << 8 | byte_at(data, at + 2)
        out[to], out[to + 1] = _ALPHABET[bits >> 18], _ALPHABET[bits >> 12 & 63]
        out[to + 2], out[to + 3] = _ALPHABET[bits >> 6 & 63], _ALPHABET[bits & 63]
        at += 3
        to += 4
    if end - at == 1:
        bits = byte_at(data, at) << 4
        out[to], out[to + 1] = _ALPHABET[bits >> 6], _ALPHABET[bits & 63]
        to += 2
    elif end - at == 2:
        bits = (byte_at(data, at) << 8 | byte_at(data, at + 1)) << 2
        out[to], out[to + 1], out[to + 2] = _ALPHABET[bits >> 12], _ALPHABET[bits >> 6 & 63], _ALPHABET[bits & 63]
        to += 3
    return to


# Unsigned varints and length-delimited fields, as protobuf writes them.
@inlined
def read_unsigned(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return (64 bits as int64, position after them); the position is -1 if the varint is cut off or too long."""
    if at >= end:
        return 0, -1
    byte = byte_at(data, at)
    at += 1
    if byte < 128:
        return byte, at
    bits, shift = uint64(byte & 127), uint64(7)
    while at < end and shift < uint64(70):
        byte = byte_at(data, at)
        at += 1
        bits |= uint64(byte & 127) << shift
        if byte < 128:
            return int64(bits), at
        shift += uint64(7)
    return 0, -1


@inlined
def read_length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return (begin, end) of the bytes after the length at ``at``; begin is -1 if they are incomplete."""
    length, begin = read_unsigned(data, at, end)
    if begin < 0 or length < 0 or length > end - begin:  # a negative length is 2^63 or more
        return -1, -1
    return begin, begin + length


@inlined
def unsigned_size(value: int) -> int:
    """Return how many bytes the 64 bits of ``value`` take."""
    bits, size = uint64(value), 1
    while bits > uint64(127):
        bits >>= uint64(7)
        size += 1
    return size


@inlined
def write_unsigned(out: Bytes, at: int, value: int) -> int:
    """Write the 64 bits of ``value`` at ``at``; return the position after them."""
    bits = uint64(value)
    while bits > uint64(127):
        out[at] = np.uint8((bits & uint64(127)) | uint64(128))
        bits >>= uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


# Whether bytes are UTF-8 (Unicode 15, table 3-7: well-formed byte sequences).
@inlined
def is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether ``data[at:end]`` is well-formed UTF-8."""
    while at < end:
        byte = byte_at(data, at)
        at += 1
        if byte < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if more > end - at:
            return False
        second = byte_at(data, at)
        if second < low or second > high:
            return False
        for place in range(at + 1, at + more):
            if byte_at(data, place) & 0xC0 != 0x80:
                return False
        at += more
    return True
