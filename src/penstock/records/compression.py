"""Compresses and decompresses the records of a batch: gzip, snappy, lz4 and zstd, as Kafka's clients write them.

`Arena` is the growing buffer that payloads are decompressed into, one after the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import numpy as np
import numpy.typing as npt

from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.records.batch import BytesLike, InflatesTooFar, as_view

__all__ = [
    "MAX_INFLATED_BYTES",
    "RATIO",
    "Arena",
    "compress",
    "inflate",
    "inflate_into",
    "inflate_stream",
    "lz4_compress",
    "lz4_inflate",
    "snappy_compress",
    "snappy_inflate",
    "too_large",
]

# The arena. Arrow columns never point into it.
RATIO: Final = 8
"""The expected compression ratio; logs are rarely compressed better."""

_FIRST_BYTES: Final = 1 << 16
_MOST_EXPECTED: Final = 32 << 20

_spare: list[npt.NDArray[np.uint8]] = []
"""At most one array from a closed arena. The next arena gets it, with its pages mapped and warm."""


class Arena:
    """Bytes ``[0, used)`` are filled. ``limit`` is the maximum of one payload; beyond it CorruptBatch is raised.

    ``expected`` is a guess at all bytes together. Reserving too much costs nothing, since pages are mapped when they
    are written; reserving too little costs a copy.
    """

    def __init__(self, limit: int, expected: int = _FIRST_BYTES) -> None:
        self._array = np.empty(0, np.uint8)
        self._view = self._array.data
        self._expected = max(_FIRST_BYTES, min(expected, limit, _MOST_EXPECTED))
        self.limit = limit
        self._begin = 0
        self.used = 0

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """All bytes, including those behind ``used``; valid until the next `room`."""
        return self._array

    def begin(self) -> int:
        """Start a payload; return its position."""
        self._begin = self.used
        return self.used

    def room(self, size: int) -> memoryview:
        """Return the free bytes: at least ``size`` unless the limit is nearer, and never more than the limit."""
        left = self.limit - (self.used - self._begin)
        size = min(size, left)
        if self.used + size > len(self._array):
            self._grow(self.used + size)
        return self._view[self.used : self.used + left]

    def take(self, size: int) -> None:
        """Count ``size`` bytes of the room as filled."""
        self.used += size

    def check(self, size: int) -> None:
        """Raise CorruptBatch if ``size`` more bytes would bring the payload above the limit."""
        if self.used - self._begin + size > self.limit:
            raise too_large(self.limit)

    @property
    def left(self) -> int:
        """How many bytes the payload may still take."""
        return self.limit - (self.used - self._begin)

    def close(self) -> None:
        """Release the memory, which must not be read afterwards."""
        if _FIRST_BYTES < len(self._array) <= _MOST_EXPECTED and not _spare:
            _spare.append(self._array)
        self._array = np.empty(0, np.uint8)
        self._view = self._array.data

    def _grow(self, size: int) -> None:
        array = _spared(size) if not self.used else None
        if array is None:
            size = max(size, 2 * len(self._array), self._expected)
            array = np.empty(size, np.uint8)
            array[: self.used] = self._array[: self.used]
        self._array, self._view = array, array.data


def _spared(size: int) -> npt.NDArray[np.uint8] | None:
    try:
        array = _spare.pop()  # another thread may have taken it
    except IndexError:
        return None
    return array if len(array) >= size else None


def too_large(limit: int) -> CorruptBatch:
    """Return the error for a payload above the limit."""
    return InflatesTooFar(
        f"a batch inflates to more than {limit} bytes",
        hint="Raise the limit if the producers really write batches of that size",
    )


# Decompression with an unknown output size: guess the room, and double it when it was too small.
_RATIO: Final = 4
_NO_ROOM: Final = "write whole buffer"
"""cramjam's message when the output is full; any other failure means invalid input."""


def inflate_stream(arena: Arena, source: memoryview, codec: str, decompress_into: Callable[..., int]) -> None:
    """Decompress all of ``source`` into ``arena``; raises CorruptBatch."""
    if not len(source):
        raise CorruptBatch(f"empty {codec} payload")
    guess = _RATIO * len(source)
    while True:
        room = arena.room(guess)
        try:
            arena.take(decompress_into(source, room))
            return
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise CorruptBatch(f"not a {codec} payload: {error}") from None
        if len(room) >= arena.left:
            raise too_large(arena.limit)
        guess = 2 * len(room)


# Snappy as Kafka has it: xerial's framing around raw blocks, or (from librdkafka) one raw block.
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEAD: Final = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_LENGTH: Final = struct.Struct(">i")
_SNAPPY_BLOCK_BYTES: Final = 32 << 10


def snappy_compress(data: BytesLike) -> bytes:
    """Write xerial's framing with blocks of 32 KiB, as snappy-java's output stream does."""
    source = as_view(data)
    parts = [_SNAPPY_HEAD]
    for begin in range(0, len(source), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(source[begin : begin + _SNAPPY_BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def snappy_inflate(arena: Arena, data: BytesLike) -> None:
    """Decompress either form into ``arena``."""
    source = as_view(data)
    if bytes(source[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        _snappy_block(arena, source)
        return
    at = len(_SNAPPY_HEAD)
    if len(source) < at:
        raise CorruptBatch("snappy framing is cut off in its header")
    while at < len(source):
        if len(source) - at < _LENGTH.size:
            raise CorruptBatch(f"snappy framing is cut off at byte {at}")
        (length,) = _LENGTH.unpack_from(source, at)
        at += _LENGTH.size
        if length < 0 or length > len(source) - at:
            raise CorruptBatch(f"snappy block of {length} bytes at byte {at}, where {len(source) - at} are left")
        _snappy_block(arena, source[at : at + length])
        at += length


def _snappy_block(arena: Arena, block: memoryview) -> None:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        arena.check(size)
        arena.take(cramjam.snappy.decompress_raw_into(block, arena.room(size)[:size]))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"not a snappy payload: {error}") from None


# LZ4 frames, block by block.
#
# The frame is parsed here for two reasons. A block decoder that knows where to write is twice as fast on Kafka's small
# frames as a frame decoder with its context. And the header checksums of magic 0 are wrong (KAFKA-3160) and must be
# ignored. Java's reader refuses dependent blocks, so blocks are written independent.
#
# Source: LZ4 frame format 1.6.1. Checksums inside the frame are not verified, because the batch has one over all of it.
_LZ4_MAGIC: Final = 0x184D2204
# Version 1 with independent blocks; blocks of at most 64 KiB; the second byte of the checksum of these two.
_LZ4_HEAD: Final = struct.pack("<IBBB", _LZ4_MAGIC, 0x60, 0x40, 0x82)
_FAST_LEVEL: Final = 9
_MOST_LEVEL: Final = 12
_LZ4_BLOCK_BYTES: Final = 64 << 10
_SIZE: Final = struct.Struct("<I")
_STORED: Final = 1 << 31
_BLOCK_BYTES_OF: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


def lz4_compress(data: BytesLike, level: int | None = None) -> bytes:
    """Write one frame; with a level other than Kafka's default in the high-compression mode, as Java's producer."""
    source = as_view(data)
    block_of = _fast if level is None or level == _FAST_LEVEL else _thorough(level)
    parts = [_LZ4_HEAD]
    for begin in range(0, len(source), _LZ4_BLOCK_BYTES):
        plain = source[begin : begin + _LZ4_BLOCK_BYTES]
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


def lz4_inflate(arena: Arena, data: BytesLike) -> None:
    """Decompress one or more frames into ``arena``."""
    source = as_view(data)
    at = 0
    if not len(source):
        raise CorruptBatch("empty lz4 payload")
    while at < len(source):
        at = _lz4_frame(arena, source, at)


def _lz4_frame(arena: Arena, source: memoryview, at: int) -> int:
    if len(source) - at < 7 or _SIZE.unpack_from(source, at)[0] != _LZ4_MAGIC:
        raise CorruptBatch(f"not an lz4 frame at byte {at}")
    flags, sizes = source[at + 4], source[at + 5]
    if flags >> 6 != 1 or flags & 1 or (sizes >> 4) & 7 not in _BLOCK_BYTES_OF:
        raise CorruptBatch(f"lz4 frame descriptor {flags:#04x} {sizes:#04x} at byte {at + 4} is not supported")
    if not flags & 32:  # dependent blocks, which Kafka's clients do not write, so speed does not matter
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
        _lz4_block(arena, source[at : at + length], most, size >= _STORED)
        at += length + (4 if flags & 16 else 0)


def _lz4_block(arena: Arena, block: memoryview, most: int, stored: bool) -> None:
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


MAX_INFLATED_BYTES: Final = 256 << 20
"""Default limit of one batch. Brokers accept 1 MB compressed by default; the best codecs reach ratios of about 200."""

_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3


def compress(codec: Codec, data: BytesLike, level: int | None = None) -> bytes | memoryview:
    """Return ``data`` in the format that Kafka's own producer writes for ``codec``.

    ``level`` is on the codec's own scale (gzip 1 to 9, lz4 1 to 17, zstd up to 22, as Kafka's
    ``compression.….level``); the other codecs have none.
    """
    return _COMPRESSORS[codec](data, level)


def inflate(codec: Codec, data: BytesLike, max_bytes: int = MAX_INFLATED_BYTES) -> memoryview:
    """Return ``data`` decompressed, at most ``max_bytes``; raises CorruptBatch."""
    arena = Arena(max(max_bytes, 1), RATIO * len(as_view(data)))
    begin, end = inflate_into(arena, codec, data)
    return arena.array.data[begin:end].toreadonly()


def inflate_into(arena: Arena, codec: Codec, data: BytesLike) -> tuple[int, int]:
    """Decompress ``data`` behind the arena's earlier payloads; return the positions of the first byte and after the
    last.

    Raises CorruptBatch for bytes that are not of that codec, and above the arena's limit.
    """
    begin = arena.begin()
    try:
        _INFLATERS[codec](arena, data)
    except CorruptBatch:
        arena.used = begin
        raise
    return begin, arena.used


def _store(arena: Arena, data: BytesLike) -> None:
    source = as_view(data)
    arena.check(len(source))
    arena.room(len(source))[: len(source)] = source
    arena.take(len(source))


def _inflate_gzip(arena: Arena, data: BytesLike) -> None:
    inflate_stream(arena, as_view(data), "gzip", cramjam.gzip.decompress_into)


def _inflate_zstd(arena: Arena, data: BytesLike) -> None:
    inflate_stream(arena, as_view(data), "zstd", cramjam.zstd.decompress_into)


def _gzip(data: BytesLike, level: int | None) -> bytes:
    packer = zlib.compressobj(_GZIP_LEVEL if level is None else level, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(as_view(data)) + packer.flush()


def _zstd(data: BytesLike, level: int | None) -> memoryview:
    import pyarrow as pa

    packed = pa.Codec("zstd", compression_level=_ZSTD_LEVEL if level is None else level).compress(as_view(data))
    return as_view(packed)  # memoryview(packed) would have the length before truncation


_COMPRESSORS: Final[dict[Codec, Callable[[BytesLike, int | None], bytes | memoryview]]] = {
    Codec.NONE: lambda data, level: as_view(data),
    Codec.GZIP: _gzip,
    Codec.SNAPPY: lambda data, level: snappy_compress(data),
    Codec.LZ4: lz4_compress,
    Codec.ZSTD: _zstd,
}

_INFLATERS: Final[dict[Codec, Callable[[Arena, BytesLike], None]]] = {
    Codec.NONE: _store,
    Codec.GZIP: _inflate_gzip,
    Codec.SNAPPY: snappy_inflate,
    Codec.LZ4: lz4_inflate,
    Codec.ZSTD: _inflate_zstd,
}
