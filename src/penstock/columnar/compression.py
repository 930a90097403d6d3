"""Compress and inflate the records section of a batch: gzip, snappy, lz4 and zstd as Kafka's clients write them.

Inflating is bounded: an output limit is enforced while bytes are produced, so a payload that lies about its size, or
really is a bomb, costs at most the limit. What must not live here: record layouts.

Source: Kafka protocol, compression of record batches; RFC 1952 (gzip), RFC 8878 (zstd), the LZ4 frame format 1.6.1
and the snappy framing of xerial's snappy-java.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from penstock.columnar import _lz4, _snappy
from penstock.columnar._stream import inflate_stream
from penstock.columnar.arena import RATIO, Arena
from penstock.columnar.buffers import BytesLike, as_view
from penstock.errors import CorruptBatch
from penstock.model import Codec

__all__ = ["MAX_INFLATED_BYTES", "compress", "inflate", "inflate_into"]

MAX_INFLATED_BYTES: Final = 256 << 20
"""Default limit of one batch. Brokers accept 1 MB compressed by default; the best codecs reach ratios of about 200."""

_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3


def compress(codec: Codec, data: BytesLike, level: int | None = None) -> bytes | memoryview:
    """Return ``data`` in the format Kafka's own producer writes for ``codec``.

    ``level`` says how hard to try, on the codec's own scale (gzip 1 to 9, lz4 1 to 17, zstd up to 22, as Kafka's
    ``compression.….level``); the others have none.
    """
    return _COMPRESSORS[codec](data, level)


def inflate(codec: Codec, data: BytesLike, max_bytes: int = MAX_INFLATED_BYTES) -> memoryview:
    """Return what ``data`` inflates to, at most ``max_bytes``; raises CorruptBatch."""
    arena = Arena(max(max_bytes, 1), RATIO * len(as_view(data)))
    begin, end = inflate_into(arena, codec, data)
    return arena.array.data[begin:end].toreadonly()


def inflate_into(arena: Arena, codec: Codec, data: BytesLike) -> tuple[int, int]:
    """Inflate behind what ``arena`` has; returns the positions of the first byte and after the last.

    Raises CorruptBatch for bytes that are not of that codec, and for more bytes than the arena's limit allows.
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
    return as_view(packed)  # memoryview(packed) would still have the length before it was cut


_COMPRESSORS: Final[dict[Codec, Callable[[BytesLike, int | None], bytes | memoryview]]] = {
    Codec.NONE: lambda data, level: as_view(data),
    Codec.GZIP: _gzip,
    Codec.SNAPPY: lambda data, level: _snappy.compress(data),
    Codec.LZ4: _lz4.compress,
    Codec.ZSTD: _zstd,
}

_INFLATERS: Final[dict[Codec, Callable[[Arena, BytesLike], None]]] = {
    Codec.NONE: _store,
    Codec.GZIP: _inflate_gzip,
    Codec.SNAPPY: _snappy.inflate,
    Codec.LZ4: _lz4.inflate,
    Codec.ZSTD: _inflate_zstd,
}
