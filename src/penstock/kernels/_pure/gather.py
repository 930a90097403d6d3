"""Copy scattered pieces into one buffer."""

from __future__ import annotations

from penstock.kernels.interface import Bytes, Int32s

__all__ = ["gather"]


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
