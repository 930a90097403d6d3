"""Read one record with every check: slow, and exact about what is wrong where.

Kafka protocol, record (v2): length, attributes, timestampDelta, offsetDelta, key, value, headers; all but the
attributes are zigzag varints.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.kernels._pure.varint import read_varint
from penstock.kernels.interface import MIN_RECORD_BYTES, Fault

__all__ = ["Record", "Wrong", "read_record"]


class Wrong(Exception):
    """A fault and its position; never leaves the kernel."""

    def __init__(self, fault: Fault, position: int) -> None:
        super().__init__(fault, position)
        self.fault = fault
        self.position = position


class Record(NamedTuple):
    """Where one record's parts are: positions, and lengths that are -1 for null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_length: int
    value_at: int
    value_length: int
    header_at: int
    headers: int
    after: int


def read_record(source: bytes, begin: int, end: int, last: int) -> Record:
    """Read the record at ``begin`` of a batch that ends at ``end`` and whose last offset delta is ``last``.

    Raises Wrong.
    """
    length, at = read_varint(source, begin, end)
    if at < 0 or length < MIN_RECORD_BYTES - 1 or length > end - at:
        raise Wrong(Fault.RECORD_LENGTH, begin)
    after = at + length
    field = at + 1
    timestamp_delta, at = read_varint(source, field, after)
    if at < 0:
        raise Wrong(Fault.TIMESTAMP_DELTA, field)
    field = at
    offset_delta, at = read_varint(source, field, after)
    if at < 0 or not 0 <= offset_delta <= last:
        raise Wrong(Fault.OFFSET_DELTA, field)
    key_length, key_at = _length(source, at, after, -1, Fault.KEY_LENGTH)
    value_length, value_at = _length(source, key_at + max(key_length, 0), after, -1, Fault.VALUE_LENGTH)
    field = value_at + max(value_length, 0)
    headers, header_at = read_varint(source, field, after)
    if header_at < 0 or not 0 <= headers <= (after - header_at) // 2:
        raise Wrong(Fault.HEADER_COUNT, field)
    at = header_at
    for _ in range(headers):
        length, at = _length(source, at, after, 0, Fault.HEADER_KEY_LENGTH)
        length, at = _length(source, at + length, after, -1, Fault.HEADER_VALUE_LENGTH)
        at += max(length, 0)
    if at != after:
        raise Wrong(Fault.RECORD_END, at)
    return Record(timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, header_at, headers, after)


def _length(source: bytes, field: int, after: int, least: int, fault: Fault) -> tuple[int, int]:
    length, at = read_varint(source, field, after)
    if at < 0 or not least <= length <= after - at:
        raise Wrong(fault, field)
    return length, at
