"""Small files with a checksum: the first line is the CRC-32 of the rest, so that a flipped bit is noticed.

What must not live here: what the files mean.
"""

from __future__ import annotations

import zlib

__all__ = ["with_checksum", "without_checksum"]


def with_checksum(content: bytes) -> bytes:
    """A file's bytes: ``content`` after a line with its checksum."""
    return b"%08x\n" % zlib.crc32(content) + content


def without_checksum(data: bytes | None) -> bytes | None:
    """The content of a file's bytes; None if there is no file or it is damaged."""
    if data is None:
        return None
    checksum, _, content = data.partition(b"\n")
    return content if checksum == b"%08x" % zlib.crc32(content) else None
