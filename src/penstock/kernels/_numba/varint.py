"""Zigzag varints, at most ten bytes."""

from __future__ import annotations

import numpy as np

from penstock.kernels._numba.jit import inlined
from penstock.kernels._numba.memory import byte_at

__all__ = ["read_varint", "varint_size", "write_varint"]


@inlined
def read_varint(data, at, end):  # type: ignore[no-untyped-def]
    """Return (value, position after it); the position is -1 where the varint is cut off or longer than ten bytes."""
    if at >= end:
        return 0, -1
    byte = byte_at(data, at)
    if byte < 128:  # nearly every length, delta and count
        return (byte >> 1) ^ -(byte & 1), at + 1
    bits = np.uint64(byte & 127)
    shift = np.uint64(7)
    at += 1
    while at < end and shift < np.uint64(70):
        byte = byte_at(data, at)
        at += 1
        bits |= np.uint64(byte & 127) << shift
        if byte < 128:
            return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), at
        shift += np.uint64(7)
    return 0, -1


@inlined
def varint_size(value):  # type: ignore[no-untyped-def]
    """Return how many bytes ``value`` takes."""
    bits = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while bits > np.uint64(127):
        bits >>= np.uint64(7)
        size += 1
    return size


@inlined
def write_varint(out, at, value):  # type: ignore[no-untyped-def]
    """Write ``value`` at ``at``; returns the position after it."""
    bits = np.uint64((value << 1) ^ (value >> 63))
    while bits > np.uint64(127):
        out[at] = np.uint8((bits & np.uint64(127)) | np.uint64(128))
        bits >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1
