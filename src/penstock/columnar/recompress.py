"""Batches in the codec that a topic wants: what ``compression.type`` and its levels mean for what is stored.

What must not live here: when that is done. It costs time, so a node does it outside its event loop.
Source: Kafka documentation, "Topic-Level Configs"; KIP-390 (levels).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from penstock._dataclasses import dataclass
from penstock.columnar.batch import CRC_START, HEADER_BYTES, parse_header
from penstock.columnar.buffers import BytesLike, as_view, crc32c
from penstock.model import Codec

__all__ = ["Target", "recompressed", "target_of"]

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LENGTH_AT, _LENGTH_AFTER, _CRC_AT, _ATTRIBUTES_AT, _CODEC_BITS = 8, 12, 17, 22, 7


@dataclass(frozen=True, slots=True)
class Target:
    """The codec that a topic is stored with, and how hard it tries; None is the codec's own default."""

    codec: Codec
    level: int | None = None

    def meets(self, batch: BytesLike) -> bool:
        """Whether ``batch`` has that codec already: then it stays as it is, whatever its level."""
        return as_view(batch)[_ATTRIBUTES_AT] & _CODEC_BITS == self.codec


def target_of(options: Mapping[str, str]) -> Target | None:
    """What a topic with these options set wants; None where batches stay as their producers made them."""
    kind = options.get("compression.type", "producer")
    if kind not in _CODECS:
        return None
    level = options.get(f"compression.{kind}.level")
    return Target(_CODECS[kind], None if level is None else int(level))


def recompressed(batch: BytesLike, target: Target, max_inflated_bytes: int) -> bytes:
    """The batch with its records in another codec; all else stays. Raises CorruptBatch."""
    from penstock.columnar.compression import compress, inflate  # a node that never compresses does without NumPy

    header, view = parse_header(batch), as_view(batch)
    plain = inflate(header.codec, view[HEADER_BYTES : header.length], max_inflated_bytes)
    packed = bytearray(view[:HEADER_BYTES])
    packed += compress(target.codec, plain, target.level)
    struct.pack_into(">i", packed, _LENGTH_AT, len(packed) - _LENGTH_AFTER)
    packed[_ATTRIBUTES_AT] = packed[_ATTRIBUTES_AT] & ~_CODEC_BITS | target.codec
    struct.pack_into(">I", packed, _CRC_AT, crc32c(packed, CRC_START))
    return bytes(packed)
