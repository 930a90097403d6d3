"""The records inside a batch, looked at only as far as storing them needs. Plain Python: a node loads no compiler.

Source: Kafka protocol, record v2: length, attributes, timestamp delta, offset delta, key, value, headers (KIP-98).
"""

from __future__ import annotations

from penstock.errors import CorruptBatch

__all__ = ["count_records", "record_heads"]

_LEAST = 6
"""The smallest record after its length: attributes and five fields of one byte."""


def count_records(data: bytes, most: int) -> int:
    """How many records ``data`` is a chain of, by their lengths. Raises CorruptBatch where the chain breaks.

    With more than ``most`` it is not looked at further: nobody pays for records that a header does not admit to.
    """
    at, end, count = 0, len(data), 0
    try:
        while at < end:
            byte = data[at]
            if byte < 128:
                at += 1 + (byte >> 1)
                size = byte
            else:
                second = data[at + 1]
                if second < 128:
                    size = byte & 127 | second << 7
                    at += 2 + (size >> 1)
                else:
                    size, at = _varint(data, at)
                    at += size >> 1
            if size & 1 or size < 2 * _LEAST:
                raise CorruptBatch(f"record {count} has a length that none can have")
            count += 1
            if count > most:
                return count
    except IndexError:
        at = -1
    if at != end:
        raise CorruptBatch(f"record {count - 1} does not end with the batch")
    return count


def record_heads(data: bytes, most: int) -> list[tuple[int, bool]]:
    """(timestamp delta in ms, whether there is a key) of each record, or of ``most`` and one. Raises CorruptBatch."""
    heads: list[tuple[int, bool]] = []
    at, end = 0, len(data)
    try:
        while at < end and len(heads) <= most:
            size, at = _varint(data, at)
            stop = at + (size >> 1)
            if size & 1 or size < 2 * _LEAST or stop > end:
                raise CorruptBatch(f"record {len(heads)} has a length that does not fit")
            delta, inner = _varint(data, at + 1)
            _, inner = _varint(data, inner)
            key, inner = _varint(data, inner)
            if inner > stop:
                raise CorruptBatch(f"record {len(heads)} ends within its own head")
            heads.append(((delta >> 1) ^ -(delta & 1), not key & 1))
            at = stop
    except IndexError:
        raise CorruptBatch(f"record {len(heads)} is cut off") from None
    return heads


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The raw (zigzag) value and the position after it. Raises IndexError at the end, CorruptBatch after ten bytes."""
    bits = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            return bits, at
        shift += 7
    raise CorruptBatch("a varint of more than ten bytes")
