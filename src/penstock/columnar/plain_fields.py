"""The fields of single records in plain Python: who handles a few of them loads neither Arrow nor NumPy for it.

What must not live here: whole records and batches; `few` writes them, and each reader knows what it wants of them.
Source: Kafka protocol, record v2.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import CorruptBatch

__all__ = ["read_bytes", "read_record", "read_varint"]

_NULL: Final = 1
"""A length of -1."""

_TWO_ZEROS_END: Final = 3
"""Where the key begins, behind attributes and two deltas of 0."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint and where it ends. Raises CorruptBatch where it does not, before ``end``."""
    if at < end and (byte := data[at]) < 128:  # nearly all of them
        return (byte >> 1) ^ -(byte & 1), at + 1
    bits = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    raise CorruptBatch(f"a varint at byte {at} does not end")


def read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes after their length (below 0: None) and where they end. Raises CorruptBatch."""
    if at < end and data[at] == _NULL:
        return None, at + 1
    size, at = read_varint(data, at, end)
    if size < 0:
        return None, at
    stop = at + size
    if stop > end:
        raise CorruptBatch(f"a field of {size} bytes with {end - at} left")
    return data[at:stop], stop


def read_record(data: bytes, at: int, end: int, base_offset: int) -> tuple[int, int, int, int]:
    """What stands before a record's key: deltas of time and offset, where the key begins, and where the record ends.

    Raises CorruptBatch, with the ``base_offset`` of its batch, for a record that does not fit before ``end``.
    """
    size, at = read_varint(data, at, end)
    stop = at + size
    if size < 0 or stop > end:
        raise CorruptBatch(f"a record of {size} bytes at byte {at} of {end}", offset=base_offset)
    if stop - at > _TWO_ZEROS_END and not data[at + 1] and not data[at + 2]:  # as in a batch of one
        return 0, 0, at + _TWO_ZEROS_END, stop
    later, at = read_varint(data, at + 1, stop)
    delta, at = read_varint(data, at, stop)
    return later, delta, at, stop
