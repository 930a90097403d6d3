"""Line: one at a time, in the order in which they came; whoever finds nobody there need not wait, nor be a task.

What must not live here: what is done by whose turn it is.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Line"]


class Line:
    """Lives on one event loop. Who leaves hands the turn on, so that nobody who comes later is faster."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Whether it is the caller's turn now, who then has to ``leave``; nobody is waited for."""
        if self._taken:
            return False
        self._taken = True
        return True

    def leave(self) -> None:
        """The next one goes on."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False

    async def __aenter__(self) -> None:
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()  # it came together with what ended the wait
            raise

    async def __aexit__(self, *_: object) -> None:
        self.leave()
