"""How many bytes all connections of a node move in one turn of the event loop, so that a small request waits for few.

What must not live here: which bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["LUMP_BYTES", "Turn"]

LUMP_BYTES: Final = 1 << 20
"""What is copied between two looks at how much it was; the socket of a client that reads takes it at once."""

_BYTES: Final = 2 << 20
"""Copied from a file to a socket within a millisecond or two."""


class Turn:
    """One a node."""

    def __init__(self) -> None:
        self._left = _BYTES
        self._waiting: deque[Callable[[], None]] = deque()
        self._ends = False
        self._space: memoryview | None = None

    @property
    def over(self) -> bool:
        """Whether enough was moved in this one."""
        return self._left <= 0

    def moved(self, count: int) -> None:
        """So many bytes were."""
        self._left -= count
        self._end_soon()

    def borrow(self) -> memoryview:
        """Room for a lump, which has been used before if it can: fresh memory costs as much as the copying."""
        space, self._space = self._space, None
        return memoryview(bytearray(LUMP_BYTES)) if space is None else space

    def give_back(self, space: memoryview) -> None:
        """Nobody looks at it any more."""
        self._space = space

    def wait(self, callback: Callable[[], None]) -> None:
        """Call it in the next turn that has room, after those who came before."""
        self._waiting.append(callback)
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._ends = False
        self._left = _BYTES
        while self._waiting and not self.over:
            self._waiting.popleft()()
        if self._waiting:
            self._end_soon()
