"""Zigzag varints, many at a time: one NumPy operation for what `varint` does in a loop."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes, Int64s

__all__ = ["NOWHERE", "read_varints"]

NOWHERE: Final = 1 << 40
"""The position after a varint of more than ten bytes: beyond the end of any record."""

_MOST_BYTES: Final = 10


def read_varints(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """Return (values, positions after them). Any position may be given: what is read outside ``data`` is of no use.

    A varint that is cut off ends after where it should, so whoever compares that with a limit finds it out.
    """
    bits = data.take(at, mode="clip").astype(np.int64)
    after = at + 1
    longer = np.flatnonzero(bits > 127)
    for size in range(1, _MOST_BYTES + 1):
        if not len(longer):
            break
        which: npt.NDArray[np.intp] | slice = slice(None) if len(longer) == len(at) else longer
        if size == _MOST_BYTES:
            after[which] = NOWHERE
            break
        byte = data.take(after[which], mode="clip").astype(np.int64)
        after[which] += 1
        bits[which] += (byte - 1) << (7 * size)  # less one: the bit of the byte before, which said "there is more"
        longer = longer[byte > 127]
    return (bits.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(bits & 1), after
