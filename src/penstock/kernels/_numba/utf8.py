"""Whether bytes are UTF-8 (Unicode 15, table 3-7: well-formed byte sequences)."""

from __future__ import annotations

from penstock.kernels._numba.jit import inlined
from penstock.kernels._numba.memory import byte_at
from penstock.kernels.interface import Bytes

__all__ = ["is_utf8"]


@inlined
def is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether ``data[at:end]`` is well-formed UTF-8."""
    while at < end:
        byte = byte_at(data, at)
        at += 1
        if byte < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if more > end - at:
            return False
        second = byte_at(data, at)
        if second < low or second > high:
            return False
        for place in range(at + 1, at + more):
            if byte_at(data, place) & 0xC0 != 0x80:
                return False
        at += more
    return True
