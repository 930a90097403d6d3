"""CRC-32 (IEEE 802.3, as zlib's), eight bytes a step.

Each of eight tables holds what a byte contributes from its place in the step ("slicing by 8", Intel 2006).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.jit import inlined
from penstock.kernels._numba.memory import byte_at, int64
from penstock.kernels.interface import Bytes

__all__ = ["crc32"]

_POLYNOMIAL: Final = 0xEDB88320


def _tables() -> npt.NDArray[np.int64]:
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for place in range(1, 8):
        before = tables[place - 1]
        tables[place] = before >> 8 ^ tables[0][before & 255]
    return tables


_TABLES: Final = _tables().reshape(-1)


@inlined
def _word(data: Bytes, at: int) -> int:
    return byte_at(data, at) | byte_at(data, at + 1) << 8 | byte_at(data, at + 2) << 16 | byte_at(data, at + 3) << 24


@inlined
def crc32(data: Bytes, at: int, end: int) -> int:
    """Return the CRC-32 of ``data[at:end]``, 0 to 2^32-1."""
    value = int64(0xFFFFFFFF)
    while at + 8 <= end:
        first, second = value ^ _word(data, at), _word(data, at + 4)
        value = (
            _TABLES[1792 + (first & 255)] ^ _TABLES[1536 + (first >> 8 & 255)]
            ^ _TABLES[1280 + (first >> 16 & 255)] ^ _TABLES[1024 + (first >> 24)]
            ^ _TABLES[768 + (second & 255)] ^ _TABLES[512 + (second >> 8 & 255)]
            ^ _TABLES[256 + (second >> 16 & 255)] ^ _TABLES[second >> 24]
        )  # fmt: skip
        at += 8
    while at < end:
        value = value >> 8 ^ _TABLES[(value ^ byte_at(data, at)) & 255]
        at += 1
    return value ^ int64(0xFFFFFFFF)
