"""The fields of single records in plain Python: who handles a few of them loads neither Arrow nor NumPy for it.

What must not live here: whole records and batches, which are their readers' own. Source: Kafka protocol, record v2.
"""

from __future__ import annotations

from penstock.errors import CorruptBatch

__all__ = ["read_bytes", "read_varint", "write_bytes", "write_varint"]


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint and where it ends. Raises CorruptBatch where it does not, before ``end``."""
    bits = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    raise CorruptBatch(f"a varint at byte {at} does not end")


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint."""
    bits = (value << 1) ^ (value >> 63)
    while bits > 127:
        out.append(bits & 127 | 128)
        bits >>= 7
    out.append(bits)


def read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes after their length (below 0: None) and where they end. Raises CorruptBatch."""
    size, at = read_varint(data, at, end)
    if size < 0:
        return None, at
    if size > end - at:
        raise CorruptBatch(f"a field of {size} bytes with {end - at} left")
    return data[at : at + size], at + size


def write_bytes(out: bytearray, value: bytes | None) -> None:
    """Append bytes after their length; -1 is None."""
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value
