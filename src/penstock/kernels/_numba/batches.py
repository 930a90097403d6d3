"""List record batches: only their 61-byte headers are read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.jit import BYTES, INT, OUT_TABLE, compiled, inlined
from penstock.kernels._numba.memory import byte_at
from penstock.kernels.interface import Bytes

__all__ = ["last_batch", "scan_batches"]

_LAST_OFFSET = 2**63 - 2


@inlined
def _integer(data: Bytes, at: int, size: int) -> int:
    value = byte_at(data, at)
    if value >= 128:
        value -= 256
    for i in range(1, size):
        value = (value << 8) | byte_at(data, at + i)
    return value


@compiled(BYTES, INT, INT, OUT_TABLE)
def scan_batches(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.kernels.interface.Kernel.scan_batches`."""
    batches = 0
    while end - at >= 17:
        if byte_at(data, at + 16) != 2:
            return batches, at, 1
        rest = _integer(data, at + 8, 4)
        if rest < 49:
            return batches, at, 2
        if rest + 12 > end - at:
            break
        base, last = _integer(data, at, 8), _integer(data, at + 23, 4)
        attributes, count = _integer(data, at + 21, 2), _integer(data, at + 57, 4)
        if last < 0:
            return batches, at, 4
        if base < 0 or base > _LAST_OFFSET - last:
            return batches, at, 5
        if attributes & 7 > 4:
            return batches, at, 6
        if count < 0:
            return batches, at, 3
        table[batches, 0] = at
        table[batches, 1] = rest + 12
        table[batches, 2] = base
        table[batches, 3] = last
        table[batches, 4] = attributes
        table[batches, 5] = _integer(data, at + 27, 8)
        table[batches, 6] = _integer(data, at + 35, 8)
        table[batches, 7] = _integer(data, at + 43, 8)
        table[batches, 8] = count
        table[batches, 9] = _integer(data, at + 17, 4) & 0xFFFFFFFF
        batches += 1
        at += rest + 12
    return batches, at, 0


@compiled(BYTES, INT, INT)
def last_batch(data: Bytes, at: int, end: int) -> int:
    """See `penstock.kernels.interface.Kernel.last_batch`."""
    last = -1
    while end - at >= 17:
        length = _integer(data, at + 8, 4)
        if length < 14 or length + 12 > end - at:
            break
        last = at
        at += length + 12
    return last
