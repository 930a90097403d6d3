"""Bodies compressed by producers: zlib's streams, LZ4's frames, Zstandard's frames; told by bits of ``sys_flag``.

Inflating is bounded. Source: Apache RocketMQ 5.x, ``CompressionType``, ``MessageSysFlag``; 4.x up to 4.9.3 knows zlib
only.
"""

from __future__ import annotations

import enum
import zlib
from typing import Final

from penstock.columnar.compression import compress, inflate
from penstock.errors import CorruptBatch
from penstock.model import Codec

__all__ = ["COMPRESSED", "MAX_BODY_BYTES", "Compression", "compressed", "inflated"]

COMPRESSED: Final = 0x1
MAX_BODY_BYTES: Final = 64 << 20
"""What one body may inflate to: brokers take 4 MiB compressed, and zlib's best ratio on real text is far below 16."""

_KIND: Final = 0x700
_LEVEL: Final = 5


class Compression(enum.IntEnum):
    """Bits 8 to 10 of ``sys_flag``; older producers write none of them and mean zlib."""

    UNSAID = 0
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


_CODECS: Final = {Compression.LZ4: Codec.LZ4, Compression.ZSTD: Codec.ZSTD}


def compressed(body: bytes | memoryview, kind: Compression = Compression.ZLIB) -> tuple[bytes | memoryview, int]:
    """Return (what to send as the body, bits of ``sys_flag`` that say so)."""
    if kind in _CODECS:
        return compress(_CODECS[kind], body), COMPRESSED | kind
    return zlib.compress(body, _LEVEL), COMPRESSED | kind


def inflated(body: bytes | memoryview, sys_flag: int, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return a body as it was sent; one that is not compressed as it is. Raises CorruptBatch."""
    if not sys_flag & COMPRESSED:
        return bytes(body)
    kind = sys_flag & _KIND
    if kind in {Compression.UNSAID, Compression.ZLIB}:
        return _unzipped(body, max_bytes)
    if kind in _CODECS:
        return bytes(inflate(_CODECS[Compression(kind)], body, max_bytes))
    raise CorruptBatch(f"a body is compressed in a way ({kind:#x}) that does not exist")


def _unzipped(body: bytes | memoryview, max_bytes: int) -> bytes:
    if max_bytes < 1:
        raise CorruptBatch("bodies inflate to more bytes than are allowed")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, max_bytes)
        if stream.unconsumed_tail or stream.decompress(b"", 1):
            raise CorruptBatch(f"a body inflates to more than {max_bytes} bytes")
    except zlib.error as error:
        raise CorruptBatch(f"a body is no zlib stream: {error}") from None
    if not stream.eof:
        raise CorruptBatch(f"a zlib stream of {len(body)} bytes is cut off")
    return plain
