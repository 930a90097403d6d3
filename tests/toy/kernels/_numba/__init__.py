"""The same, compiled."""

from penstock.kernels._numba.compiling import BYTES, byte_at, compiled
from penstock.kernels.interface import Bytes

__all__ = ["checksum"]


@compiled(BYTES)
def checksum(data: Bytes) -> int:
    low, high = 1, 0
    for place in range(len(data)):
        low = (low + byte_at(data, place)) % 65_521
        high = (high + low) % 65_521
    return high << 16 | low
