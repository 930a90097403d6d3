"""Find keys, tags and headers among the properties of stored messages.

What a name is stands in a small hash table of the names that mean something, made from the one that both kernels have.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.jit import (
    BYTES,
    INT,
    INT32S,
    OUT_BYTES,
    OUT_INT32S,
    OUT_TABLE,
    compiled,
    inlined,
)  # fmt: skip
from penstock.kernels._numba.memory import byte_at, int64
from penstock.kernels.interface import Bytes, Int32s
from penstock.protocols.rocketmq.kernels.interface import KIND_OF

__all__ = ["find_properties", "walk_headers"]

_SLOTS: Final = 256
_LONGEST: Final = max(map(len, KIND_OF))


def _hash_of(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value * 31 + byte) & 0xFFFFFFFF
    return (value ^ value >> 8) & (_SLOTS - 1)


def _slots() -> npt.NDArray[np.int64]:
    """Return the number of the name in each slot; -1 in those that are free. A name is in the first free one."""
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
    """Return (position of the first 0x01, end) of the entry at ``at``; the first is -1 where it means nothing."""
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
