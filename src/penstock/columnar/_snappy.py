"""Snappy as Kafka knows it: xerial's framing around raw blocks, or (from librdkafka) one raw block."""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from penstock.columnar.arena import Arena
from penstock.columnar.buffers import BytesLike, as_view
from penstock.errors import CorruptBatch

__all__ = ["compress", "inflate"]

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEAD: Final = _MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_LENGTH: Final = struct.Struct(">i")
_BLOCK_BYTES: Final = 32 << 10


def compress(data: BytesLike) -> bytes:
    """Write xerial's framing with blocks of 32 KiB, as snappy-java's output stream does."""
    source = as_view(data)
    parts = [_HEAD]
    for begin in range(0, len(source), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(source[begin : begin + _BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def inflate(arena: Arena, data: BytesLike) -> None:
    """Read either form into ``arena``."""
    source = as_view(data)
    if bytes(source[: len(_MAGIC)]) != _MAGIC:
        _block(arena, source)
        return
    at = len(_HEAD)
    if len(source) < at:
        raise CorruptBatch("snappy framing is cut off in its header")
    while at < len(source):
        if len(source) - at < _LENGTH.size:
            raise CorruptBatch(f"snappy framing is cut off at byte {at}")
        (length,) = _LENGTH.unpack_from(source, at)
        at += _LENGTH.size
        if length < 0 or length > len(source) - at:
            raise CorruptBatch(f"snappy block of {length} bytes at byte {at}, where {len(source) - at} are left")
        _block(arena, source[at : at + length])
        at += length


def _block(arena: Arena, block: memoryview) -> None:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        arena.check(size)
        arena.take(cramjam.snappy.decompress_raw_into(block, arena.room(size)[:size]))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"not a snappy payload: {error}") from None
