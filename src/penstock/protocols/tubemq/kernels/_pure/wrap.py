"""Checksums of TubeMQ payloads, and payloads as messages of an answer."""

from __future__ import annotations

import itertools
import zlib

from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = ["checksums", "wrap_messages"]

_MASK = (1 << 64) - 1


def checksums(data: Bytes, ends: Int32s, out: Int32s) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.checksums`."""
    source, stops = data.data, ends.tolist()
    for row, (begin, end) in enumerate(itertools.pairwise(stops)):
        out[row] = zlib.crc32(source[begin:end]) & 0x7FFFFFFF


def wrap_messages(data: Bytes, ends: Int32s, flags: Int32s, sums: Int32s, message_ids: Int64s, out: Bytes) -> int:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.wrap_messages`."""
    source, stops = data.data, ends.tolist()
    pieces: list[bytes | memoryview] = []
    for row, message_id in enumerate(message_ids.tolist()):
        payload = source[stops[row] : stops[row + 1]]
        head = b"\x08" + _varint(message_id) + b"\x10" + _varint(int(sums[row])) + b"\x1a" + _varint(len(payload))
        tail = b"\x20" + _varint(int(flags[row]))
        pieces += [b"\x22", _varint(len(head) + len(payload) + len(tail)), head, payload, tail]
    joined = b"".join(pieces)
    out.data[: len(joined)] = joined
    return len(joined)


def _varint(value: int) -> bytes:
    bits = value & _MASK
    written = bytearray()
    while bits > 127:
        written.append(bits & 127 | 128)
        bits >>= 7
    written.append(bits)
    return bytes(written)
