"""Zigzag varints, at most ten bytes."""

from __future__ import annotations

import numpy as np

from penstock.kernels._numba.jit import inlined
from penstock.kernels._numba.memory import byte_at, int64, uint64
from penstock.kernels.interface import Bytes

__all__ = ["read_varint", "varint_size", "write_varint"]


@inlined
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return (value, position after it); the position is -1 where the varint is cut off or longer than ten bytes."""
    if at >= end:
        return 0, -1
    byte = byte_at(data, at)
    if byte < 128:  # nearly every length, delta and count
        return (byte >> 1) ^ -(byte & 1), at + 1
    bits = uint64(byte & 127)
    shift = uint64(7)
    at += 1
    while at < end and shift < uint64(70):
        byte = byte_at(data, at)
        at += 1
        bits |= uint64(byte & 127) << shift
        if byte < 128:
            return int64(bits >> uint64(1)) ^ -int64(bits & uint64(1)), at
        shift += uint64(7)
    return 0, -1


@inlined
def varint_size(value: int) -> int:
    """Return how many bytes ``value`` takes."""
    bits = uint64((value << 1) ^ (value >> 63))
    size = 1
    while bits > uint64(127):
        bits >>= uint64(7)
        size += 1
    return size


@inlined
def write_varint(out: Bytes, at: int, value: int) -> int:
    """Write ``value`` at ``at``; returns the position after it."""
    bits = uint64((value << 1) ^ (value >> 63))
    while bits > uint64(127):
        out[at] = np.uint8((bits & uint64(127)) | uint64(128))
        bits >>= uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1
