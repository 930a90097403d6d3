"""Answers of one connection that come later, by a call each and in no task; those of one turn go out together.

What must not live here: what is written, and how.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from penstock.net._outgoing import Outgoing
from penstock.seams.framing import Pieces
from penstock.seams.later import Later

__all__ = ["Late", "Receiver"]


class Receiver(Protocol):
    """What a connection is told."""

    def late_came(self, pieces: Pieces) -> None:
        """An answer to be written. Raises nothing."""
        ...

    def late_sent(self) -> None:
        """All that came together has been written."""
        ...


class Late:
    """``count`` answers to come, to requests of ``bytes``."""

    __slots__ = ("_empty", "_loop", "_outgoing", "_receiver", "_waking", "bytes", "count")

    def __init__(self, loop: asyncio.AbstractEventLoop, outgoing: Outgoing, receiver: Receiver) -> None:
        self._loop = loop
        self._outgoing = outgoing
        self._receiver = receiver
        self._waking = False
        self._empty: asyncio.Future[None] | None = None
        self.count = self.bytes = 0

    def expect(self, answer: Later[Pieces], size: int) -> None:
        """Have it written when it comes; ``size`` is its request's in bytes."""
        self.count += 1
        self.bytes += size
        answer.tell(partial(self._came, size))

    async def all_came(self) -> None:
        """Return when no answer is to come."""
        while self.count:
            self._empty = self._empty or self._loop.create_future()
            await asyncio.shield(self._empty)

    def _came(self, size: int, pieces: Pieces) -> None:
        self.count -= 1
        self.bytes -= size
        if self.count and not self._waking:
            # Others of this connection are likely to come in the same turn.
            self._waking = True
            self._outgoing.gather()
            self._loop.call_soon(self._send)
        self._receiver.late_came(pieces)
        if not self.count:
            self._send()

    def _send(self) -> None:
        if self._waking:
            self._waking = False
            self._outgoing.send_gathered()
        self._receiver.late_sent()
        if self._empty is not None and not self.count:
            self._empty.set_result(None)
            self._empty = None
