"""Requests of a connection that are on their way: who waits for the answer, or is told of it.

What must not live here: writing, frames, timers.
"""

from __future__ import annotations

import asyncio

from penstock.errors import PenstockError
from penstock.net._links import LARGEST_CORRELATION
from penstock.seams.channel import Told, ToldOfMany
from penstock.seams.framing import Frame

__all__ = ["AsyncioMany", "AsyncioPending", "AsyncioTold"]


class AsyncioPending:
    """A request on its way for whose answer somebody waits; until ``until`` (loop time), which is ``timeout_s``."""

    __slots__ = ("future", "timeout_s", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self.future: asyncio.Future[Frame] = loop.create_future()
        self.timeout_s = timeout_s
        self.until = loop.time() + timeout_s

    def settle(self, frame: Frame) -> None:
        """This is the answer."""
        if not self.future.done():
            self.future.set_result(frame)

    def fail(self, error: PenstockError) -> None:
        """There will be none."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # marks it as seen: an answer that nobody waits for is not worth a warning

    @property
    def answered(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.future.done()

    async def reply(self) -> Frame:
        """Wait for the answer. Raises RequestTimeout, ConnectionLost, ProtocolViolation."""
        return await self.future


class AsyncioTold:
    """A request on its way whose answer is told to somebody."""

    __slots__ = ("_loop", "settle", "timeout_s", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Told, now: float, timeout_s: float) -> None:
        self._loop = loop
        self.settle = told
        """Now: another turn of the loop would cost more than all the rest."""
        self.timeout_s = timeout_s
        self.until = now + timeout_s

    def fail(self, error: PenstockError) -> None:
        """Later: whoever hears of it may write on this connection, of which not all is known to be lost yet."""
        self._loop.call_soon(self.settle, error)


class AsyncioMany:
    """Requests on their way, numbered from ``first`` on; who hears of their answers knows them by their place."""

    __slots__ = ("_answered", "_first", "_loop", "_over", "_told", "timeout_s", "until")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, first: int, count: int, told: ToldOfMany, timeout_s: float
    ) -> None:
        self._loop = loop
        self._first = first
        self._answered = bytearray(count)
        self._told = told
        self._over = False
        self.timeout_s = timeout_s
        self.until = loop.time() + timeout_s

    def settle(self, frame: Frame) -> None:
        """One of them, now."""
        place = (frame.correlation - self._first) % LARGEST_CORRELATION
        self._answered[place] = 1
        self._told(place, frame)

    def fail(self, error: PenstockError) -> None:
        """All that are left, later."""
        if not self._over:
            self._over = True
            self._loop.call_soon(self._fail, error)

    def _fail(self, error: PenstockError) -> None:
        for place, answered in enumerate(self._answered):
            if not answered:
                self._told(place, error)
