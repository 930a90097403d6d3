"""First come, first served: what clients ask of one booking, one after the other, although each may wait for the disk.

A client may send a get and its commit in one go and expects them to be served in that order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from penstock.seams.runtime import Promise

__all__ = ["Turns"]


class Turns:
    """A queue for one place."""

    __slots__ = ("_last", "_new_promise")

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._last: Promise[None] | None = None

    @asynccontextmanager
    async def mine(self) -> AsyncIterator[None]:
        """Wait for all who came before; the next one waits until this is left."""
        before = self._last
        mine: Promise[None] = self._new_promise()
        self._last = mine
        try:
            if before is not None and not before.done:
                await before
            yield
        finally:
            mine.set(None)
            if self._last is mine:
                self._last = None
