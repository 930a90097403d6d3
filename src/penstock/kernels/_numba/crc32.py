"""CRC-32 (IEEE 802.3, as zlib's), sixteen bytes per step.

Each of the sixteen tables has the contribution of a byte at one place of the step ("slicing by 8", Intel 2006, at twice
the width: the loads of one step do not depend on each other). All numbers are unsigned, so that no index can be
negative and numba emits no check for that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.compiling import byte_at, inlined, int64, uint64
from penstock.kernels.interface import Bytes

__all__ = ["crc32"]

_POLYNOMIAL: Final = 0xEDB88320
_STEP: Final = 16


def _tables() -> npt.NDArray[np.uint64]:
    tables = np.zeros((_STEP, 256), np.uint64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for place in range(1, _STEP):
        before = tables[place - 1]
        tables[place] = before >> np.uint64(8) ^ tables[0][before & np.uint64(255)]
    return tables.reshape(-1)


_TABLES: Final = _tables()
_BYTE: Final = uint64(255)
_ALL: Final = uint64(0xFFFFFFFF)
_TABLE: Final = uint64(256)


@inlined
def _word(data: Bytes, at: int) -> int:
    return uint64(
        byte_at(data, at) | byte_at(data, at + 1) << 8 | byte_at(data, at + 2) << 16 | byte_at(data, at + 3) << 24
    )


@inlined
def _contribution(word: int, table: int) -> int:
    """Return the contribution of the four bytes of ``word``: the last one by ``table``, earlier ones by the next."""
    last = uint64(table) * _TABLE
    third, second, first = last + _TABLE, last + _TABLE * uint64(2), last + _TABLE * uint64(3)
    return (
        _TABLES[first + (word & _BYTE)] ^ _TABLES[second + (word >> uint64(8) & _BYTE)]
        ^ _TABLES[third + (word >> uint64(16) & _BYTE)] ^ _TABLES[last + (word >> uint64(24))]
    )  # fmt: skip


@inlined
def crc32(data: Bytes, at: int, end: int) -> int:
    """Return the CRC-32 of ``data[at:end]``, 0 to 2^32-1."""
    value = _ALL
    while at + _STEP <= end:
        first, second = value ^ _word(data, at), _word(data, at + 4)
        third, fourth = _word(data, at + 8), _word(data, at + 12)
        value = _contribution(first, 12) ^ _contribution(second, 8) ^ _contribution(third, 4) ^ _contribution(fourth, 0)
        at += _STEP
    while at < end:
        value = value >> uint64(8) ^ _TABLES[(value ^ uint64(byte_at(data, at))) & _BYTE]
        at += 1
    return int64(value ^ _ALL)
