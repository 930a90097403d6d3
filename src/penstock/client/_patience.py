"""Patience: how long one close may take, which another close of the same client can shorten and never lengthens.

What must not live here: what takes that long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from penstock.seams import LogClient

__all__ = ["Patience", "hang_up"]

_FAREWELL_S: Final = 3.0


async def hang_up(client: LogClient) -> None:
    """Close it; servers that are told, and do not answer, are waited for no longer than a moment."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            await client.close()


class Patience:
    """Of a close that has begun; made in its loop."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.seconds = seconds
        self.deadline = self._loop.time() + seconds
        self._limit: asyncio.Timeout | None = None
        self._over = asyncio.Event()

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """A block that ends by TimeoutError when the time is over; not inside another one."""
        async with asyncio.timeout_at(self.deadline) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    async def hurry(self, seconds: float | None, *, wait: bool = True) -> None:
        """Another close came, and has so much time; returns when the one under way is through."""
        if seconds is not None and (deadline := self._loop.time() + seconds) < self.deadline:
            self.deadline, self.seconds = deadline, seconds
            if self._limit is not None and not self._limit.expired():
                self._limit.reschedule(deadline)
        if wait:
            await self._over.wait()

    def __enter__(self) -> Self:
        """Around all of the close."""
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
