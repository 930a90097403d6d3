"""Zigzag varints as Protocol Buffers and Kafka write them: seven bits a byte, low bits first, at most ten bytes."""

from __future__ import annotations

__all__ = ["read_varint", "signed64", "write_varint"]

_MASK = (1 << 64) - 1


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return (value, position after it); the position is -1 where the varint is cut off or longer than ten bytes."""
    bits = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            bits &= _MASK
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    return 0, -1


def write_varint(out: bytearray, value: int) -> None:
    """Append a 64-bit signed ``value``."""
    bits = (value << 1) ^ (value >> 63)
    while bits > 127:
        out.append(bits & 127 | 128)
        bits >>= 7
    out.append(bits)


def signed64(value: int) -> int:
    """Wrap to 64 bits, as the arithmetic of Java and of the compiled kernel does."""
    return ((value + (1 << 63)) & _MASK) - (1 << 63)
