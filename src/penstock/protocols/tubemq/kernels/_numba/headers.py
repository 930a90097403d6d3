"""Note where the names and values of TubeMQ's headers are, and copy texts together, decoded."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._numba.compiling import BYTES, INT, INT32S, OUT_BYTES, OUT_INT32S, compiled, copy_bytes, int64
from penstock.kernels._numba.text import read_base64
from penstock.kernels.interface import Bytes, Int32s
from penstock.protocols.tubemq.kernels._numba.attributes import classify, dot_of, element
from penstock.protocols.tubemq.kernels.interface import FILTER_HEADER

__all__ = ["gather_texts", "walk_attributes"]

_FILTER_HEADER: Final = np.frombuffer(FILTER_HEADER, np.uint8)
_FILTER_HEADER_SIZE: Final = len(FILTER_HEADER)


@compiled(
    BYTES, INT32S, INT32S, INT32S, INT, INT, OUT_INT32S, OUT_INT32S, OUT_BYTES, OUT_INT32S, OUT_INT32S, OUT_BYTES,
)  # fmt: skip
def walk_attributes(
    data: Bytes, attributes_at: Int32s, attributes_to: Int32s, header_ends: Int32s, first: int, last: int,
    name_at: Int32s, name_ends: Int32s, name_texts: Bytes, value_at: Int32s, value_ends: Int32s, value_texts: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.walk_attributes`."""
    for row in range(first, last):
        header, stop = int64(header_ends[row]), int64(header_ends[row + 1])
        at, end, seen = int64(attributes_at[row]), int64(attributes_to[row]), int64(0)
        while header < stop and at < end:
            name, name_to, value, value_to, at = element(data, at, end)
            if name < 0:
                continue
            kind = classify(data, name, name_to, value, value_to, seen)
            if kind == 0 or kind > 3:
                seen |= 1 << min(kind, 7)
                continue
            if kind == 3:
                dot = dot_of(data, value, value_to)
                name_at[header], name_ends[header + 1] = value, name_ends[header] + (dot - value) * 3 // 4
                value_at[header] = dot + 1 if dot < value_to else -1
                value_ends[header + 1] = value_ends[header] + (value_to - dot - 1) * 3 // 4
                if dot == value_to:
                    value_ends[header + 1] = value_ends[header]
                name_texts[header] = value_texts[header] = 1
            else:
                size = _FILTER_HEADER_SIZE if kind == 2 else name_to - name
                name_at[header], name_ends[header + 1] = 0 if kind == 2 else name, name_ends[header] + size
                value_at[header], value_ends[header + 1] = value, value_ends[header] + (value_to - value)
                name_texts[header], value_texts[header] = 2 if kind == 2 else 0, 0
            header += 1


@compiled(BYTES, INT32S, INT32S, BYTES, INT, INT, OUT_BYTES)
def gather_texts(data: Bytes, at: Int32s, ends: Int32s, texts: Bytes, first: int, last: int, out: Bytes) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.gather_texts`."""
    for row in range(first, last):
        to, stop = int64(ends[row]), int64(ends[row + 1])
        if stop <= to:
            continue
        if texts[row] == 0:
            copy_bytes(out, to, data, int64(at[row]), stop - to)
        elif texts[row] == 1:
            read_base64(data, int64(at[row]), out, to, stop)
        else:
            copy_bytes(out, to, _FILTER_HEADER, int64(0), stop - to)
