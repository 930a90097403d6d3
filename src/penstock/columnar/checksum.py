"""CRC-32C (Castagnoli, RFC 3720) over any buffer without copying it."""

from __future__ import annotations

from typing import TypeAlias

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Bytes", "BytesLike", "as_array", "crc32c"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
BytesLike: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer | Bytes"
"""What may be read: anything with the buffer protocol, contiguous."""


def as_array(buffer: BytesLike) -> Bytes:
    """Return a view of bytes over ``buffer``; nothing is copied and the view keeps the buffer alive."""
    if isinstance(buffer, np.ndarray):
        return buffer
    return np.frombuffer(buffer, np.uint8)


def crc32c(buffer: BytesLike, begin: int = 0, end: int | None = None) -> int:
    """Return the CRC-32C of ``buffer[begin:end]``."""
    # google_crc32c refuses memoryviews but takes arrays, and slicing one copies nothing.
    return google_crc32c.value(as_array(buffer)[begin:end])  # type: ignore[arg-type]
