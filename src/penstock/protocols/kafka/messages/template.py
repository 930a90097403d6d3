"""Answers that are the same each time but for a run of numbers: encoded once, by the codec, then packed around them.

What must not live here: which answers.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.protocols.kafka.messages.headers import response

__all__ = ["Template"]

_BEGIN: Final = struct.Struct(">ii")
"""A frame's size and the correlation id."""


class Template:
    """``message`` shows it, with ``shown`` as the numbers, whose bytes must stand nowhere else in it."""

    __slots__ = ("_head", "_run", "_size", "_tail")

    def __init__(self, message: object, version: int, run: struct.Struct, shown: tuple[int, ...]) -> None:
        """Raises ValueError where the numbers do not stand there, neighbours and once."""
        whole = b"".join(bytes(piece) for piece in response(message, version, 0))  # type: ignore[arg-type]
        head, *rest = whole.split(run.pack(*shown))
        (self._tail,) = rest
        self._head = head[_BEGIN.size :]
        self._run = run
        self._size = len(whole) - 4

    def packed(self, correlation: int, *numbers: int) -> bytes:
        """The answer with these numbers, framed."""
        return _BEGIN.pack(self._size, correlation) + self._head + self._run.pack(*numbers) + self._tail
