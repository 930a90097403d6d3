"""Checksums of TubeMQ payloads, and payloads as messages of an answer."""

from __future__ import annotations

from penstock.kernels._numba.compiling import BYTES, INT32S, INT64S, OUT_BYTES, OUT_INT32S, compiled, copy_bytes, int64
from penstock.kernels._numba.crc32 import crc32
from penstock.kernels._numba.text import unsigned_size, write_unsigned
from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = ["checksums", "wrap_messages"]


@compiled(BYTES, INT32S, OUT_INT32S)
def checksums(data: Bytes, ends: Int32s, out: Int32s) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.checksums`."""
    for row in range(len(out)):
        out[row] = crc32(data, int64(ends[row]), int64(ends[row + 1])) & 0x7FFFFFFF


@compiled(BYTES, INT32S, INT32S, INT32S, INT64S, OUT_BYTES)
def wrap_messages(data: Bytes, ends: Int32s, flags: Int32s, sums: Int32s, message_ids: Int64s, out: Bytes) -> int:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.wrap_messages`."""
    at = int64(0)
    for row in range(len(message_ids)):
        begin = int64(ends[row])
        length = int64(ends[row + 1]) - begin
        message_id, checksum, flag = message_ids[row], int64(sums[row]), int64(flags[row])
        size = 4 + unsigned_size(message_id) + unsigned_size(checksum) + unsigned_size(flag)
        size += unsigned_size(length) + length
        out[at] = 0x22
        at = write_unsigned(out, at + 1, size)
        out[at] = 0x08
        at = write_unsigned(out, at + 1, message_id)
        out[at] = 0x10
        at = write_unsigned(out, at + 1, checksum)
        out[at] = 0x1A
        at = write_unsigned(out, at + 1, length)
        if length:
            copy_bytes(out, at, data, begin, length)
        at += length
        out[at] = 0x20
        at = write_unsigned(out, at + 1, flag)
    return at
