"""Walk stored messages: positions of their parts, checksums, and the keys, tags and headers among their properties.

Faults are returned as the numbers of `penstock.protocols.rocketmq.kernels.interface.StoredFault`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.compiling import (
    BYTES,
    INT,
    INT32S,
    OUT_BYTES,
    OUT_INT32S,
    OUT_TABLE,
    byte_at,
    compiled,
    inlined,
    int64,
)
from penstock.kernels._numba.crc32 import crc32
from penstock.kernels.interface import Bytes, Int32s
from penstock.protocols.rocketmq.kernels.interface import KIND_OF

__all__ = ["check_sums", "find_properties", "scan_messages", "walk_headers"]

_LEAST: Final = 91
_MAGIC_1: Final = -626843481
_MAGIC_2: Final = -626843477


@inlined
def _int16(data: Bytes, at: int) -> int:
    value = byte_at(data, at) << 8 | byte_at(data, at + 1)
    return (value ^ 0x8000) - 0x8000


@inlined
def _int32(data: Bytes, at: int) -> int:
    value = byte_at(data, at) << 24 | byte_at(data, at + 1) << 16 | byte_at(data, at + 2) << 8 | byte_at(data, at + 3)
    return (value ^ 0x80000000) - 0x80000000


@inlined
def _int64(data: Bytes, at: int) -> int:
    return _int32(data, at) << 32 | (_int32(data, at + 4) & 0xFFFFFFFF)


@compiled(BYTES, INT, INT, OUT_TABLE)
def scan_messages(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.scan_messages`."""
    row = int64(0)
    while at < end and row < len(table):
        if end - at < _LEAST:
            return row, at, 1
        size = _int32(data, at)
        if size < _LEAST or size > end - at:
            return row, at, 1
        magic = _int32(data, at + 4)
        if magic not in (_MAGIC_1, _MAGIC_2):
            return row, at + 4, 2
        stop = at + size
        sys_flag = _int32(data, at + 36)
        stored_at = at + 48 + (20 if sys_flag & 0x10 else 8)
        after = stored_at + 8 + (20 if sys_flag & 0x20 else 8)
        body = after + 16
        if body > stop:
            return row, at, 1
        body_size = _int32(data, body - 4)
        if body_size < 0 or body_size > stop - body:
            return row, body - 4, 3
        topic = body + body_size
        if magic == _MAGIC_1:
            if stop - topic < 1:
                return row, topic, 4
            topic_size = byte_at(data, topic)
            topic += 1
            if topic_size > stop - topic:
                return row, topic - 1, 4
        else:
            if stop - topic < 2:
                return row, topic, 4
            topic_size = _int16(data, topic)
            topic += 2
            if topic_size < 0 or topic_size > stop - topic:
                return row, topic - 2, 4
        properties = topic + topic_size
        if stop - properties < 2:
            return row, properties, 5
        properties_size = _int16(data, properties)
        properties += 2
        if properties_size < 0 or properties_size > stop - properties:
            return row, properties - 2, 5
        if properties + properties_size != stop:
            return row, properties + properties_size, 6
        table[row, 0], table[row, 1], table[row, 2] = at, size, _int32(data, at + 8)
        table[row, 3], table[row, 4] = _int32(data, at + 12), _int32(data, at + 16)
        table[row, 5], table[row, 6] = _int64(data, at + 20), _int64(data, at + 28)
        table[row, 7], table[row, 8], table[row, 9] = sys_flag, _int64(data, at + 40), at + 48
        table[row, 10], table[row, 11] = _int64(data, stored_at), stored_at + 8
        table[row, 12], table[row, 13] = _int32(data, after), _int64(data, after + 4)
        table[row, 14], table[row, 15], table[row, 16], table[row, 17] = body, body_size, topic, topic_size
        table[row, 18], table[row, 19] = properties, properties_size
        at = stop
        row += 1
    return row, at, 0


@compiled(BYTES, OUT_TABLE)
def check_sums(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.check_sums`."""
    for row in range(len(table)):
        begin = table[row, 14]
        if (crc32(data, begin, begin + table[row, 15]) & 0x7FFFFFFF) != table[row, 2]:
            return row
    return len(table)


# Properties: keys, tags and headers. A name's kind comes from a small hash table of the names in `KIND_OF`, which both
# kernels share.
_SLOTS: Final = 256
_LONGEST: Final = max(map(len, KIND_OF))


def _hash_of(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value * 31 + byte) & 0xFFFFFFFF
    return (value ^ value >> 8) & (_SLOTS - 1)


def _slots() -> npt.NDArray[np.int64]:
    """Return the name's number in each slot; -1 in free ones. A name is in the first free slot from its hash on."""
    slots = np.full(_SLOTS, -1, np.int64)
    for number, name in enumerate(KIND_OF):
        at = _hash_of(name)
        while slots[at] >= 0:
            at = (at + 1) % _SLOTS
        slots[at] = number
    return slots


_NUMBERS: Final = _slots()
_NAMES: Final = np.frombuffer(b"".join(KIND_OF), np.uint8)
_ENDS: Final = np.cumsum([0, *map(len, KIND_OF)], dtype=np.int64)
_KINDS: Final = np.array([int(kind) for kind in KIND_OF.values()], np.int64)


@inlined
def _kind(data: Bytes, at: int, end: int) -> int:
    """Return the kind of the property called ``data[at:end]``, a number of `Kind`."""
    if end - at > _LONGEST:
        return 0
    value = int64(0)
    for place in range(at, end):
        value = (value * 31 + byte_at(data, place)) & 0xFFFFFFFF
    slot = (value ^ value >> 8) & (_SLOTS - 1)
    while _NUMBERS[slot] >= 0:
        number = _NUMBERS[slot]
        begin = _ENDS[number]
        if _ENDS[number + 1] - begin == end - at:
            same = int64(0)
            while same < end - at and byte_at(data, at + same) == byte_at(_NAMES, begin + same):
                same += 1
            if same == end - at:
                return _KINDS[number]
        slot = (slot + 1) & (_SLOTS - 1)
    return 0


@inlined
def _entry(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return (position of the first 0x01, end) of the entry at ``at``; the first is -1 for an entry to be ignored."""
    middle = int64(-1)
    end = at
    while end < stop:
        byte = byte_at(data, end)
        if byte == 2:
            break
        if byte == 1 and middle < 0:
            middle = end
        end += 1
    if middle <= at or middle + 1 >= end:
        return -1, end
    return middle, end


@compiled(BYTES, OUT_TABLE, INT, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_BYTES)
def find_properties(
    data: Bytes, table: npt.NDArray[np.int64], every: int, key_at: Int32s, key_ends: Int32s, tag_at: Int32s,
    tag_sizes: Int32s, header_ends: Int32s, coded: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.find_properties`."""
    keys = headers = int64(0)
    key_ends[0] = header_ends[0] = 0
    for row in range(len(table)):
        at = table[row, 18]
        stop = at + table[row, 19]
        key = tag = int64(-1)
        key_size = tag_size = has_coded = int64(0)
        while at < stop:
            middle, end = _entry(data, at, stop)
            if middle >= 0:
                kind = _kind(data, at, middle)
                if kind == 4:
                    has_coded = int64(1)
                else:
                    if kind == 2:
                        key, key_size = middle + 1, end - middle - 1
                    elif kind == 3:
                        tag, tag_size = middle + 1, end - middle - 1
                    if every != 0 or kind in (0, 3):
                        headers += 1
            at = end + 1
        keys += key_size
        key_at[row], key_ends[row + 1], header_ends[row + 1] = key, keys, headers
        tag_at[row], tag_sizes[row], coded[row] = tag, tag_size, has_coded


@compiled(BYTES, OUT_TABLE, INT, INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S)
def walk_headers(
    data: Bytes, table: npt.NDArray[np.int64], every: int, header_ends: Int32s, name_at: Int32s, name_ends: Int32s,
    value_at: Int32s, value_ends: Int32s,
) -> None:  # fmt: skip
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.walk_headers`."""
    header = int64(0)
    name_ends[0] = value_ends[0] = 0
    for row in range(len(table)):
        at = table[row, 18]
        stop = at + table[row, 19]
        left = int64(header_ends[row + 1]) - int64(header_ends[row])
        while at < stop and left > 0:
            middle, end = _entry(data, at, stop)
            if middle >= 0:
                kind = _kind(data, at, middle)
                if kind != 4 and (every != 0 or kind in (0, 3)):
                    name_at[header], value_at[header] = at, middle + 1
                    name_ends[header + 1] = name_ends[header] + (middle - at)
                    value_ends[header + 1] = value_ends[header] + (end - middle - 1)
                    header += 1
                    left -= 1
            at = end + 1
