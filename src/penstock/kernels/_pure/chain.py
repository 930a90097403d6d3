"""Find where records begin: the only step from one record to the next, so all that cannot be done for all at once.

Many batches are walked side by side, a step in all of them at a time; a few, one after the other. Only lengths are
read, and nothing is judged but whether the last record ends where the batch does.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._pure.varint import read_varint
from penstock.kernels._pure.varints import pairs_of
from penstock.kernels.interface import Bytes, Int64s

__all__ = ["record_starts"]

_STEP: Final = 40
"""A step in many batches at once costs as much as that many records walked in a loop."""


def record_starts(data: Bytes, begins: Int64s, ends: Int64s, counts: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return (where each record begins, whether the chain of each batch ends where the batch does).

    The places of a broken chain are of no use.
    """
    total = int(counts.sum())
    starts = np.empty(total, np.int64)
    firsts = np.cumsum(counts) - counts
    whole = np.zeros(len(counts), np.bool_)
    if int(counts.max(initial=0)) * _STEP < total:
        whole = _side_by_side(data, begins, counts, starts, firsts) == ends
    for row in np.flatnonzero(~whole).tolist():
        found = _one_by_one(data, int(begins[row]), int(ends[row]), int(counts[row]))
        if found is not None:
            first = int(firsts[row])
            starts[first : first + len(found)] = found
            whole[row] = True
    return starts, whole


def _side_by_side(data: Bytes, begins: Int64s, counts: Int64s, starts: Int64s, firsts: Int64s) -> Int64s:
    """Fill ``starts``; returns where each chain ends. One that meets a length of three bytes stays where it is."""
    pairs, jumps = pairs_of(data), _jumps()
    last = len(pairs) - 1
    order = np.argsort(-counts, kind="stable")  # so that the chains which go on are the first ones
    at, to = begins[order], firsts[order]
    going = len(order) - np.searchsorted(np.sort(counts), np.arange(int(counts.max())), "right")
    for step, number in enumerate(going.tolist()):
        here = at[:number]
        starts[step:][to[:number]] = here
        here += jumps.take(pairs[np.minimum(here, last)])
    ended = np.empty_like(at)
    ended[order] = at
    return ended


@functools.cache
def _jumps() -> Int64s:
    """From two bytes, low one first, to the size of the record that begins with them; 0 for lengths that are longer."""
    low, high = np.meshgrid(np.arange(256), np.arange(256))
    two = 2 + ((low & 127 | high << 7) >> 1)
    jumps = np.where(low < 128, 1 + (low >> 1), np.where(high < 128, two, 0))
    return jumps.ravel().astype(np.int64)


def _one_by_one(data: Bytes, begin: int, end: int, count: int) -> list[int] | None:
    source = data[begin:end].tobytes()
    at = 0
    starts: list[int] = []
    append = starts.append
    try:
        for _ in range(count):
            append(begin + at)
            length = source[at]
            if length < 128:
                at += 1 + (length >> 1)
                continue
            high = source[at + 1]
            if high < 128:
                at += 2 + ((length & 127 | high << 7) >> 1)
                continue
            length, after = read_varint(source, at, end - begin)
            if length < 0 or after < 0:
                return None
            at = after + length
    except IndexError:
        return None
    return starts if at == end - begin else None
