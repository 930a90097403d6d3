"""Bodies behind a 4-byte size, big-endian and signed: how Kafka and RocketMQ both cut a stream.

A size out of bounds ends the connection before anything is allocated for it. What must not live here: what a body says.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from penstock.errors import ProtocolViolation
from penstock.wire.foreign import looks_like_tls

__all__ = ["SizedBodies"]

_SIZE = 4
_SIZE_OF = struct.Struct(">i")

Refusal = Callable[[bytes], ProtocolViolation | None]
"""The error for the first bytes of a connection, if they say who speaks something else."""


class SizedBodies:
    """Cuts bodies of ``least`` to ``limit`` bytes; ``whose`` protocol it is says the error for any other size.

    ``foreign`` is asked when the very first size makes no sense.
    """

    __slots__ = ("_body", "_first", "_foreign", "_least", "_limit", "_whose")

    def __init__(self, whose: str, foreign: Refusal, *, least: int, limit: int) -> None:
        self._whose = whose
        self._foreign = foreign
        self._least = least
        self._limit = limit
        self._body = 0
        self._first = True

    def need(self) -> int:
        """Bytes wanted next: those of a size, or of the body that it announced."""
        return self._body or _SIZE

    def feed(self, chunk: memoryview) -> memoryview | None:
        """Take exactly ``need()`` bytes; a body when it is whole. Raises ProtocolViolation."""
        if self._body:
            self._body = 0
            return chunk
        size = int.from_bytes(chunk, "big", signed=True)
        if not self._least <= size <= self._limit or (self._first and looks_like_tls(bytes(chunk))):
            raise self._refused(bytes(chunk), size)
        self._body = size
        self._first = False
        return None

    def whole(self, view: memoryview, most: int) -> memoryview | int:
        """A copy of the body, where ``view`` is one with its size, and nothing of another was fed.

        Where it is the beginning of one of up to ``most`` bytes with its size, how many are missing; else 0.
        """
        have = len(view) - _SIZE
        if self._first or self._body or have < self._least:
            return 0
        size: int = _SIZE_OF.unpack_from(view)[0]
        if size == have:
            return memoryview(bytes(view))[_SIZE:] if size <= self._limit else 0
        return size - have if have < size <= self._limit and size <= most - _SIZE else 0

    def _refused(self, head: bytes, size: int) -> ProtocolViolation:
        foreign = self._foreign(head) if self._first else None
        return foreign or ProtocolViolation(
            f"a frame of {size} bytes; {self._least} to {self._limit} are allowed",
            hint=f"Is the other side speaking {self._whose}, without TLS?",
        )
