"""Small files whose content is believed: a line with a CRC-32 of the rest, so that a flipped bit is not believed.

What must not live here: what is in them.
"""

from __future__ import annotations

import zlib

__all__ = ["check", "checked"]


def checked(content: bytes) -> bytes:
    """The bytes of a file with ``content``."""
    return b"%08x\n" % zlib.crc32(content) + content


def check(data: bytes | None) -> bytes | None:
    """The content of a file's bytes; None if there is no file, or if it is damaged."""
    if data is None:
        return None
    checksum, _, content = data.partition(b"\n")
    return content if checksum == b"%08x" % zlib.crc32(content) else None
