"""Buffers of any kind as arrays and views of bytes, and their CRC-32C (Castagnoli, RFC 3720); nothing is copied.

What must not live here: pyarrow and, where it can be helped, NumPy: a node that only stores and serves batches does
without them (35 MB and 15 MB).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TypeAlias

import google_crc32c

from penstock.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["Bytes", "BytesLike", "as_array", "as_view", "check_range", "crc32c"]

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
BytesLike: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer | npt.NDArray[np.uint8]"
"""What may be read: anything with the buffer protocol, contiguous."""


_SMALL: Final = 4_096


def as_array(buffer: BytesLike) -> Bytes:
    """Return an array over ``buffer``, which it keeps alive."""
    import numpy as np

    if isinstance(buffer, np.ndarray):
        return buffer
    return np.frombuffer(buffer, np.uint8)


def as_view(buffer: BytesLike) -> memoryview:
    """Return a view of unsigned bytes over ``buffer``, read-only if the buffer is."""
    view = memoryview(buffer)  # type: ignore[arg-type]
    return view if view.format == "B" else view.cast("B")


def check_range(size: int, position: int, end: int | None) -> int:
    """Return the end of a range of a buffer of ``size`` bytes; raises UsageError for a position outside of it.

    Compiled code does not check its indexes, so this must not be left out.
    """
    if not 0 <= position <= size:
        raise UsageError(f"position {position} lies outside a buffer of {size} bytes")
    return size if end is None else max(position, min(end, size))


def crc32c(buffer: BytesLike, begin: int = 0, end: int | None = None) -> int:
    """Return the CRC-32C of ``buffer[begin:end]``."""
    # google_crc32c refuses memoryviews but takes arrays; its C form runs at 27 GB/s. A process that does without NumPy
    # so far (a node) copies the bytes: a few microseconds a batch, where the import costs 60 ms and 15 MB.
    # Of a small piece the copy costs less than the array.
    view = as_view(buffer)[begin:end]
    if len(view) <= _SMALL or "numpy" not in sys.modules:
        return int(google_crc32c.value(bytes(view)))
    return int(google_crc32c.value(as_array(buffer)[begin:end]))
