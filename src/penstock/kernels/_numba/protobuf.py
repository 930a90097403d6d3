"""Unsigned varints and length-delimited fields, as protobuf writes them."""

from __future__ import annotations

import numpy as np

from penstock.kernels._numba.jit import inlined
from penstock.kernels._numba.memory import byte_at, int64, uint64
from penstock.kernels.interface import Bytes

__all__ = ["read_length", "read_unsigned", "unsigned_size", "write_unsigned"]


@inlined
def read_unsigned(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return (64 bits as int64, position after them); the position is -1 where they are cut off or too many."""
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
    """Return (begin, end) of the bytes behind the length at ``at``; begin is -1 where they are not there."""
    length, begin = read_unsigned(data, at, end)
    if begin < 0 or length < 0 or length > end - begin:  # below 0: 2^63 and more
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
    """Write the 64 bits of ``value`` at ``at``; returns the position after them."""
    bits = uint64(value)
    while bits > uint64(127):
        out[at] = np.uint8((bits & uint64(127)) | uint64(128))
        bits >>= uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1
