"""By the standard library."""

import zlib

from penstock.kernels.interface import Bytes

__all__ = ["checksum"]


def checksum(data: Bytes) -> int:
    return zlib.adler32(data.data)
