"""Zigzag varints, many at a time: a few NumPy operations for what `varint` does in a loop.

Those of one or two bytes, which are nearly all, are looked up in a table by their two bytes; longer ones are read byte
by byte.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes, Int64s

__all__ = ["NOWHERE", "pairs_of", "read_varints"]

NOWHERE: Final = 1 << 40
"""The position after a varint of more than ten bytes: beyond the end of any record."""

_MOST_BYTES: Final = 10
_LONGER: Final = -1 << 40
_SIZE_BITS: Final = 2
_SIZE: Final = 3


def pairs_of(data: Bytes) -> npt.NDArray[np.uint16]:
    """Return a view of ``data``, of two bytes or more: at each position the byte there and, above it, the next one."""
    return np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))


def read_varints(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """Return (values, positions after them). Any position may be given: what is read outside ``data`` is of no use.

    A varint that is cut off ends after where it should, so whoever compares that with a limit finds it out.
    """
    found = _short_varints().take(_pairs_at(data, at))
    longer = np.flatnonzero(found == _LONGER) if int(found.min(initial=0)) == _LONGER else None
    after = found & _SIZE
    after += at
    found >>= _SIZE_BITS
    if longer is not None:
        found[longer], after[longer] = _read_long(data, at[longer])
    return found, after


def _pairs_at(data: Bytes, at: Int64s) -> npt.NDArray[np.uint16]:
    pairs, last = pairs_of(data), len(data) - 2
    if int(at.view(np.uint64).max(initial=0)) <= last:  # and none of them is negative
        return pairs[at]
    found = pairs[np.clip(at, 0, last)]
    found[at > last] = data[-1]
    return found


@functools.cache
def _short_varints() -> Int64s:
    """From two bytes, low one first, to the value of the varint that begins with them, and its size in the low bits."""
    low, high = (each.ravel() for each in np.meshgrid(np.arange(256), np.arange(256)))
    bits = np.where(low < 128, low, low & 127 | high << 7)
    found = ((bits >> 1) ^ -(bits & 1)) << _SIZE_BITS | np.where(low < 128, 1, 2)
    found[(low > 127) & (high > 127)] = _LONGER
    return found.astype(np.int64)


def _read_long(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
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
