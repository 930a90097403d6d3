"""Finds the last whole batch by lengths alone, in plain Python: for the pure kernel, and for use without NumPy."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["last_whole"]

_PREFIX: Final = 17  # baseOffset, batchLength, leaderEpoch, magic
_LENGTH: Final = struct.Struct(">i")  # at the same position in all formats, and with the same bytes left out
_LENGTH_AT: Final = 8
_LENGTH_AFTER: Final = 12
_LEAST_LENGTH: Final = 14


def last_whole(view: memoryview, at: int, end: int) -> int:
    """See `penstock.kernels.interface.Kernel.last_batch`."""
    last = -1
    while end - at >= _PREFIX:
        length: int = _LENGTH.unpack_from(view, at + _LENGTH_AT)[0]
        if length < _LEAST_LENGTH or length + _LENGTH_AFTER > end - at:
            break
        last, at = at, at + length + _LENGTH_AFTER
    return last
