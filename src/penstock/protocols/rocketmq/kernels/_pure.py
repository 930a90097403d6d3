"""RocketMQ's kernel in plain Python: always available, and the reference in the compiled kernel's tests."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes, Int32s
from penstock.protocols.rocketmq.kernels.interface import (
    KIND_OF,
    LEAST_BYTES,
    MAGIC_1,
    MAGIC_2,
    Kind,
    Stored,
    StoredFault,
)

__all__ = ["check_sums", "find_properties", "scan_messages", "walk_headers"]

# Messages: positions of their parts, with every length checked, and checksums.
_FIXED: Final = struct.Struct(">iIiiiqqiq")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_INT64: Final = struct.Struct(">q")
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20


class _Wrong(Exception):
    def __init__(self, fault: StoredFault, position: int) -> None:
        self.fault = fault
        self.position = position


def scan_messages(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.scan_messages`."""
    source = data.data
    rows: list[tuple[int, ...]] = []
    try:
        while at < end and len(rows) < len(table):
            rows.append(_message(source, at, end))
            at += rows[-1][Stored.SIZE]
    except _Wrong as wrong:
        table[: len(rows)] = np.array(rows, np.int64).reshape(len(rows), table.shape[1])
        return len(rows), wrong.position, wrong.fault
    table[: len(rows)] = np.array(rows, np.int64).reshape(len(rows), table.shape[1])
    return len(rows), at, StoredFault.NONE


def _message(source: memoryview, at: int, end: int) -> tuple[int, ...]:
    if end - at < LEAST_BYTES:
        raise _Wrong(StoredFault.SIZE, at)
    size, magic, crc, queue, flag, offset, physical, sys_flag, born = _FIXED.unpack_from(source, at)
    if not LEAST_BYTES <= size <= end - at:
        raise _Wrong(StoredFault.SIZE, at)
    if magic not in {MAGIC_1, MAGIC_2}:
        raise _Wrong(StoredFault.MAGIC, at + 4)
    stop = at + size
    born_host = at + _FIXED.size
    stored_at = born_host + (20 if sys_flag & _BORN_IPV6 else 8)
    store_host = stored_at + 8
    after = store_host + (20 if sys_flag & _STORE_IPV6 else 8)
    body = after + _AFTER_HOSTS.size
    if body > stop:
        raise _Wrong(StoredFault.SIZE, at)
    (stored,) = _INT64.unpack_from(source, stored_at)
    reconsumed, prepared, body_size = _AFTER_HOSTS.unpack_from(source, after)
    if not 0 <= body_size <= stop - body:
        raise _Wrong(StoredFault.BODY_LENGTH, body - 4)
    length_at = body + body_size
    topic, topic_size = _sized(source, length_at, stop, 1 if magic == MAGIC_1 else 2, StoredFault.TOPIC_LENGTH)
    length_at = topic + topic_size
    properties, properties_size = _sized(source, length_at, stop, 2, StoredFault.PROPERTIES_LENGTH)
    if properties + properties_size != stop:
        raise _Wrong(StoredFault.END, properties + properties_size)
    return (
        at, size, crc, queue, flag, offset, physical, sys_flag, born, born_host, stored, store_host, reconsumed,
        prepared, body, body_size, topic, topic_size, properties, properties_size,
    )  # fmt: skip


def _sized(source: memoryview, at: int, stop: int, width: int, fault: StoredFault) -> tuple[int, int]:
    """Return (position, size) of a part after its size of ``width`` bytes; a size of two bytes is signed."""
    if stop - at < width:
        raise _Wrong(fault, at)
    size = int.from_bytes(source[at : at + width], "big", signed=width == 2)
    if not 0 <= size <= stop - at - width:
        raise _Wrong(fault, at)
    return at + width, size


def check_sums(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.check_sums`."""
    source = data.data
    wanted = table[:, [Stored.BODY_AT, Stored.BODY_SIZE, Stored.CRC]].tolist()
    for row, (at, size, crc) in enumerate(wanted):
        if zlib.crc32(source[at : at + size]) & 0x7FFFFFFF != crc:
            return row
    return len(table)


# Properties: keys, tags and headers.
_NO_HEADER = {Kind.OWN, Kind.KEY}


def find_properties(
    data: Bytes, table: npt.NDArray[np.int64], every: int, key_at: Int32s, key_ends: Int32s, tag_at: Int32s,
    tag_sizes: Int32s, header_ends: Int32s, coded: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.find_properties`."""
    source, keys, headers = data.tobytes(), 0, 0
    key_ends[0] = header_ends[0] = 0
    for row, (begin, size) in enumerate(_places(table)):
        key = tag = -1
        key_size = tag_size = has_coded = 0
        for name_at, value_at, end, kind in _entries(source, begin, begin + size):
            if kind == Kind.CODED:
                has_coded = 1
                continue
            if kind == Kind.KEY:
                key, key_size = value_at, end - value_at
            elif kind == Kind.TAG:
                tag, tag_size = value_at, end - value_at
            headers += every or kind not in _NO_HEADER
            del name_at
        keys += key_size
        key_at[row], key_ends[row + 1], header_ends[row + 1] = key, keys, headers
        tag_at[row], tag_sizes[row], coded[row] = tag, tag_size, has_coded


def walk_headers(
    data: Bytes, table: npt.NDArray[np.int64], every: int, header_ends: Int32s, name_at: Int32s, name_ends: Int32s,
    value_at: Int32s, value_ends: Int32s,
) -> None:  # fmt: skip
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.walk_headers`."""
    source, header = data.tobytes(), 0
    del header_ends
    name_ends[0] = value_ends[0] = 0
    for begin, size in _places(table):
        for name, value, end, kind in _entries(source, begin, begin + size):
            if kind != Kind.CODED and (every or kind not in _NO_HEADER):
                name_at[header], value_at[header] = name, value
                name_ends[header + 1] = name_ends[header] + (value - 1 - name)
                value_ends[header + 1] = value_ends[header] + (end - value)
                header += 1


def _places(table: npt.NDArray[np.int64]) -> list[list[int]]:
    places: list[list[int]] = table[:, [Stored.PROPERTIES_AT, Stored.PROPERTIES_SIZE]].tolist()
    return places


def _entries(source: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, Kind]]:
    """Yield (name's position, value's position, value's end, kind) of each property with a name and a value."""
    while at < stop:
        end = source.find(b"\x02", at, stop)
        end = stop if end < 0 else end
        middle = source.find(b"\x01", at, end)
        if middle > at and middle + 1 < end:
            yield at, middle + 1, end, KIND_OF.get(source[at:middle], Kind.HEADER)
        at = end + 1
