"""NumberGiver: producers' ids where a producer may write to several logs, each of which tells producers apart by them.

A cluster's own ids count up from zero. These begin at a random place in the upper half of what an id can be, so that
nobody else has them, whichever of the logs is away. Source: Kafka protocol, InitProducerId: an id is any i64 that is
not negative, and only transactional ids are looked up when something is written under one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

from penstock.errors import Unsupported
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Frame
from penstock.seams.relay import Heard

__all__ = ["NumberGiver"]

_UPPER_HALF: Final = 1 << 62
_ROOM: Final = (1 << 61) - 1
_NOTHING: Final = "no frame is handed on where topics live in several places"


class NumberGiver:
    """``penstock.seams.relay.Relay``, which relays nothing."""

    scheme = ""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._next = count(_UPPER_HALF | int.from_bytes(random_bytes(8), "big") & _ROOM)

    async def producer_id(self) -> int:
        """An id that nobody has."""
        return next(self._next)

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        raise Unsupported(_NOTHING)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        raise Unsupported(_NOTHING)

    def hear(self, heard: Heard) -> None:
        """Nobody is heard."""
