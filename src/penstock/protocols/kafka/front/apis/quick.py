"""What requests that are answered from their bytes have in common: reading the header, and answers made once.

What is in any way unusual is left to the usual handler by None, which alone says what is wrong; so nothing may have
been done of it by then. What must not live here: any request. Source: Kafka protocol guide; KIP-482.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from penstock.protocols.kafka.messages.headers import response
from penstock.wire import Reader

__all__ = ["Head", "framed", "read_head", "text", "text_or_none", "unchanging"]

_HEAD: Final = struct.Struct(">hhih")


class Head(NamedTuple):
    """Version and correlation id of a request."""

    version: int
    correlation: int


def read_head(reader: Reader, flexible: int) -> Head | None:
    """Go past the header; None where it has tags. ``flexible``: the first version that may.

    Raises ProtocolViolation.
    """
    _, version, correlation, size = reader.fixed(_HEAD)
    if size > 0:
        reader.take(size)
    if version >= flexible and reader.uvarint():
        return None
    return Head(version, correlation)


def text(reader: Reader, compact: bool) -> str:
    """Raises ProtocolViolation, also for a null."""
    return reader.text(reader.uvarint() - 1 if compact else reader.i16())


def text_or_none(reader: Reader, compact: bool) -> str | None:
    """Raises ProtocolViolation."""
    size = reader.uvarint() - 1 if compact else reader.i16()
    return None if size == -1 else reader.text(size)


def unchanging(message: object, version: int) -> bytes:
    """An answer that is the same each time but for its correlation id, for `framed`."""
    return b"".join(bytes(piece) for piece in response(message, version, 0))  # type: ignore[arg-type]


def framed(answer: bytes, correlation: int) -> bytes:
    """That answer to this request."""
    return answer[:4] + correlation.to_bytes(4, "big", signed=True) + answer[8:]
