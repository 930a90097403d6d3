"""URL-safe base64 without padding."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._numba.jit import inlined
from penstock.kernels._numba.memory import byte_at, int64
from penstock.kernels.interface import Bytes

__all__ = ["is_base64", "read_base64", "write_base64"]

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_DIGITS: Final = np.full(256, 255, np.uint8)
_DIGITS[_ALPHABET] = np.arange(64, dtype=np.uint8)


@inlined
def is_base64(data: Bytes, at: int, end: int) -> bool:
    """Whether ``data[at:end]`` is base64."""
    if (end - at) & 3 == 1:
        return False
    for place in range(at, end):  # noqa: SIM110 - a generator is nothing numba compiles
        if _DIGITS[byte_at(data, place)] == 255:
            return False
    return True


@inlined
def read_base64(data: Bytes, at: int, out: Bytes, to: int, stop: int) -> None:
    """Decode what is written at ``at``, and is base64, into ``out[to:stop]``."""
    bits, held = int64(0), 0
    while to < stop:
        bits = bits << 6 & 0xFFFFFF | int64(_DIGITS[byte_at(data, at)])
        at += 1
        held += 6
        if held >= 8:
            held -= 8
            out[to] = np.uint8(bits >> held & 255)
            to += 1


@inlined
def write_base64(data: Bytes, at: int, end: int, out: Bytes, to: int) -> int:
    """Write ``data[at:end]`` at ``to``; returns the position after it."""
    while at + 3 <= end:
        bits = byte_at(data, at) << 16 | byte_at(data, at + 1) << 8 | byte_at(data, at + 2)
        out[to], out[to + 1] = _ALPHABET[bits >> 18], _ALPHABET[bits >> 12 & 63]
        out[to + 2], out[to + 3] = _ALPHABET[bits >> 6 & 63], _ALPHABET[bits & 63]
        at += 3
        to += 4
    if end - at == 1:
        bits = byte_at(data, at) << 4
        out[to], out[to + 1] = _ALPHABET[bits >> 6], _ALPHABET[bits & 63]
        to += 2
    elif end - at == 2:
        bits = (byte_at(data, at) << 8 | byte_at(data, at + 1)) << 2
        out[to], out[to + 1], out[to + 2] = _ALPHABET[bits >> 12], _ALPHABET[bits >> 6 & 63], _ALPHABET[bits & 63]
        to += 3
    return to
