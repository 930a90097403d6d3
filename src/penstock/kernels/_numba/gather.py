"""Copy scattered pieces into one buffer, 16 bytes at a time."""

from __future__ import annotations

from penstock.kernels._numba.jit import BYTES, INT, INT32S, OUT_BYTES, compiled
from penstock.kernels._numba.memory import CHUNK, copy_bytes, copy_chunk, int64
from penstock.kernels.interface import Bytes, Int32s

__all__ = ["gather", "gathered"]

_LONG = 512


@compiled(BYTES, INT32S, INT32S, INT, INT, OUT_BYTES)
def gather(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int, out: Bytes) -> None:
    """See `penstock.kernels.interface.Kernel.gather`.

    A chunk may write over the end of its piece: the next piece is written afterwards, and ``out`` has slack. It may
    not read over the end of ``data``, so pieces close to that are copied exactly.
    """
    safe = len(data) - CHUNK
    for row in range(first, last):
        begin, to = int64(at[row]), int64(ends[row])
        length = int64(ends[row + 1]) - to
        if length <= _LONG and begin + length <= safe:
            done = int64(0)
            while done < length:
                copy_chunk(out, to + done, data, begin + done)
                done += CHUNK
        elif length > 0:
            copy_bytes(out, to, data, begin, length)


def gathered(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int) -> Bytes | None:
    """See `penstock.kernels.interface.Kernel.gathered`; writing where the caller wants it is as fast."""
    del data, at, ends, first, last
    return None
