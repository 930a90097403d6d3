"""List record batches: only their 61-byte headers are read."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes, Fault

__all__ = ["last_batch", "scan_batches"]

# baseOffset, batchLength, leaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
# producerId, producerEpoch, baseSequence, recordCount
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qiib")
_LAST_OFFSET: Final = (1 << 63) - 2
_CODECS: Final = 5

_LENGTH: Final = struct.Struct(">i")  # in the same place in all formats, as is what it does not count
_LENGTH_AT: Final = 8
_LENGTH_AFTER: Final = 12
_LEAST_LENGTH: Final = 14


def scan_batches(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.kernels.interface.Kernel.scan_batches`."""
    view = data.data
    batches = 0
    while end - at >= _PREFIX.size:
        _, rest, _, magic = _PREFIX.unpack_from(view, at)
        if magic != 2:
            return batches, at, Fault.MAGIC
        if rest < _HEADER.size - 12:
            return batches, at, Fault.BATCH_LENGTH
        if rest + 12 > end - at:
            break
        base, _, _, _, crc, attributes, last, first_ms, max_ms, producer, _, _, count = _HEADER.unpack_from(view, at)
        fault = _judge(base, attributes, last, count)
        if fault:
            return batches, at, fault
        table[batches] = (at, rest + 12, base, last, attributes, first_ms, max_ms, producer, count, crc)
        batches += 1
        at += rest + 12
    return batches, at, Fault.NONE


def _judge(base: int, attributes: int, last: int, count: int) -> Fault:
    if last < 0:
        return Fault.LAST_OFFSET_DELTA
    if base < 0 or base > _LAST_OFFSET - last:
        return Fault.BASE_OFFSET
    if attributes & 7 >= _CODECS:
        return Fault.CODEC
    if count < 0:
        return Fault.RECORD_COUNT
    return Fault.NONE


def last_batch(data: Bytes, at: int, end: int) -> int:
    """See `penstock.kernels.interface.Kernel.last_batch`."""
    view = data.data
    last = -1
    while end - at >= _PREFIX.size:
        length: int = _LENGTH.unpack_from(view, at + _LENGTH_AT)[0]
        if length < _LEAST_LENGTH or length + _LENGTH_AFTER > end - at:
            break
        last, at = at, at + length + _LENGTH_AFTER
    return last
