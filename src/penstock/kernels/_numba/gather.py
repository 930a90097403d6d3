"""Copy scattered pieces into one buffer, 16 bytes at a time."""

from __future__ import annotations

import numpy as np

from penstock.kernels._numba.jit import compiled
from penstock.kernels._numba.memory import copy_bytes, copy_chunk

__all__ = ["gather"]


@compiled
def gather(data, at, ends, first, last, out):  # type: ignore[no-untyped-def]
    """See `penstock.kernels.interface.Kernel.gather`.

    A chunk may write over the end of its piece: the next piece is written afterwards, and ``out`` has slack. It may
    not read over the end of ``data``, so pieces close to that are copied exactly.
    """
    safe = len(data) - 16
    for row in range(first, last):
        begin, to = np.int64(at[row]), np.int64(ends[row])
        length = np.int64(ends[row + 1]) - to
        if begin + length <= safe and length <= 512:
            done = np.int64(0)
            while done < length:
                copy_chunk(out, to + done, data, begin + done)
                done += 16
        elif length > 0:
            copy_bytes(out, to, data, begin, length)
