"""LZ4 frames, block by block.

Read by hand because a block decoder that is told where to write is twice as fast on Kafka's small frames as a frame
decoder with its context, and because the header checksums of magic 0 are wrong (KAFKA-3160) and must be passed over.
Java's reader refuses blocks that depend on each other, so they are written independent.

Source: LZ4 frame format 1.6.1. Checksums inside the frame are not compared: the batch has one over all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import cramjam

from penstock.columnar._stream import inflate_stream
from penstock.columnar.arena import Arena, too_large
from penstock.columnar.buffers import BytesLike, as_view
from penstock.errors import CorruptBatch

__all__ = ["compress", "inflate"]

_MAGIC: Final = 0x184D2204
# Version 1 with independent blocks; blocks of at most 64 KiB; the second byte of the checksum of these two.
_HEAD: Final = struct.pack("<IBBB", _MAGIC, 0x60, 0x40, 0x82)
_FAST_LEVEL: Final = 9
_MOST_LEVEL: Final = 12
_BLOCK_BYTES: Final = 64 << 10
_SIZE: Final = struct.Struct("<I")
_STORED: Final = 1 << 31
_BLOCK_BYTES_OF: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


def compress(data: BytesLike, level: int | None = None) -> bytes:
    """Write one frame; with a level other than Kafka's default by the thorough method, as Java's producer does."""
    source = as_view(data)
    block_of = _fast if level is None or level == _FAST_LEVEL else _thorough(level)
    parts = [_HEAD]
    for begin in range(0, len(source), _BLOCK_BYTES):
        plain = source[begin : begin + _BLOCK_BYTES]
        block = block_of(plain)
        if len(block) < len(plain):
            parts += (_SIZE.pack(len(block)), block)
        else:
            parts += (_SIZE.pack(len(plain) | _STORED), plain.tobytes())
    parts.append(_SIZE.pack(0))
    return b"".join(parts)


def _fast(plain: memoryview) -> bytes:
    return bytes(cramjam.lz4.compress_block(plain, store_size=False))


def _thorough(level: int) -> Callable[[memoryview], bytes]:
    import pyarrow as pa

    packer = pa.Codec("lz4_raw", compression_level=min(level, _MOST_LEVEL))
    return lambda plain: bytes(as_view(packer.compress(plain)))


def inflate(arena: Arena, data: BytesLike) -> None:
    """Read one or more frames into ``arena``."""
    source = as_view(data)
    at = 0
    if not len(source):
        raise CorruptBatch("empty lz4 payload")
    while at < len(source):
        at = _frame(arena, source, at)


def _frame(arena: Arena, source: memoryview, at: int) -> int:
    if len(source) - at < 7 or _SIZE.unpack_from(source, at)[0] != _MAGIC:
        raise CorruptBatch(f"not an lz4 frame at byte {at}")
    flags, sizes = source[at + 4], source[at + 5]
    if flags >> 6 != 1 or flags & 1 or (sizes >> 4) & 7 not in _BLOCK_BYTES_OF:
        raise CorruptBatch(f"lz4 frame descriptor {flags:#04x} {sizes:#04x} at byte {at + 4} is not supported")
    if not flags & 32:  # blocks that depend on each other: not from Kafka's clients, so speed is no matter
        inflate_stream(arena, source[at:], "lz4", cramjam.lz4.decompress_into)
        return len(source)
    most = _BLOCK_BYTES_OF[(sizes >> 4) & 7]
    at += 7 + (8 if flags & 8 else 0)
    while True:
        if len(source) - at < _SIZE.size:
            raise CorruptBatch(f"lz4 frame is cut off at byte {at}")
        (size,) = _SIZE.unpack_from(source, at)
        at += _SIZE.size
        if not size:
            return at + (4 if flags & 4 else 0)
        length = size & ~_STORED
        if length > len(source) - at or length > most:
            raise CorruptBatch(f"lz4 block of {length} bytes at byte {at}, where {len(source) - at} are left")
        _block(arena, source[at : at + length], most, size >= _STORED)
        at += length + (4 if flags & 16 else 0)


def _block(arena: Arena, block: memoryview, most: int, stored: bool) -> None:
    if stored:
        arena.check(len(block))
        arena.room(len(block))[: len(block)] = block
        arena.take(len(block))
        return
    room = arena.room(most)[:most]
    try:
        arena.take(cramjam.lz4.decompress_block_into(block, room))
    except cramjam.DecompressionError as error:
        if len(room) < most:
            raise too_large(arena.limit) from None
        raise CorruptBatch(f"not an lz4 payload: {error}") from None
