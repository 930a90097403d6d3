"""Copy scattered pieces into one buffer: as rows of a table where all have one length, else by Arrow's own loop.

What must not live here: any other use of Arrow; this one is of a loop over bytes that NumPy does not have.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes, Int32s

__all__ = ["gather", "gathered"]

_FEW: Final = 200
"""Pieces that a loop has copied before NumPy has started."""
_FEW_FOR_ARROW: Final = 1_000
"""The first use of Arrow's loop takes some milliseconds."""
_LONG: Final = 1 << 12
"""Bytes a piece from which on copying is what takes the time, whoever loops."""


def gathered(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int) -> Bytes | None:
    """See `penstock.kernels.interface.Kernel.gathered`."""
    begins, stops = at[first:last], ends[first : last + 1]
    lengths = np.diff(stops)
    if len(lengths) <= _FEW or int(stops[-1]) - int(stops[0]) > _LONG * len(lengths):
        return None
    length = int(lengths[0])
    if (lengths == length).all():
        return _rows(data, begins, length) if length else None
    return _by_arrow(data, begins, lengths) if len(lengths) > _FEW_FOR_ARROW else None


def gather(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int, out: Bytes) -> None:
    """See `penstock.kernels.interface.Kernel.gather`."""
    source, target = data.data, out.data
    stops = ends[first : last + 1].tolist()
    pieces = [
        source[begin : begin + stop - start]
        for begin, start, stop in zip(at[first:last].tolist(), stops[:-1], stops[1:], strict=True)
        if stop > start
    ]
    target[stops[0] : stops[-1]] = b"".join(pieces)


def _rows(data: Bytes, begins: Int32s, length: int) -> Bytes:
    pieces: npt.NDArray[np.void] = np.ndarray((len(data) - length + 1,), f"V{length}", data, strides=(1,))
    return pieces[begins].view(np.uint8)


def _by_arrow(data: Bytes, begins: Int32s, lengths: Int32s) -> Bytes | None:
    """Take every other one of the pieces and the gaps between them, if they lie in order."""
    import pyarrow as pa
    from pyarrow._compute import call_function  # pyarrow.compute is 0.1 s more

    bounds = np.empty(2 * len(begins), np.int32)
    bounds[0::2], bounds[1::2] = begins, begins + lengths
    bounds[0::2][lengths == 0] = 0  # nothing is there, and nulls are nowhere
    bounds[1::2][lengths == 0] = 0
    ordered = np.maximum.accumulate(bounds)
    if (ordered != bounds)[np.repeat(lengths > 0, 2)].any():
        return None
    places = np.arange(0, len(bounds), 2, dtype=np.int32)
    pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(ordered), pa.py_buffer(data)])
    wanted = pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)])
    taken = call_function("take", [pieces, wanted])
    return np.frombuffer(taken.buffers()[2], np.uint8, int(lengths.sum()))
