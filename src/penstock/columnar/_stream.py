"""Inflate a payload whose output size is not known beforehand: guess the room, and grow when it was too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import cramjam

from penstock.columnar.arena import Arena, too_large
from penstock.errors import CorruptBatch

__all__ = ["inflate_stream"]

_RATIO: Final = 4
_NO_ROOM: Final = "write whole buffer"
"""What cramjam says when the output is full; any other failure means that the input is wrong."""


def inflate_stream(arena: Arena, source: memoryview, codec: str, decompress_into: Callable[..., int]) -> None:
    """Inflate all of ``source`` into ``arena``; raises CorruptBatch."""
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
