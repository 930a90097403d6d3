"""Room: who waits until ``buffer_memory_bytes`` have room for another record, and how that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.client._intake import Intake
from penstock.client.errors import BufferFull
from penstock.errors import PenstockError

__all__ = ["Room"]


class Room:
    """Lives on the loop. ``hurry`` has everything sent that can be, while somebody waits."""

    def __init__(self, intake: Intake, max_block_ms: int, hurry: Callable[[], None]) -> None:
        self._intake = intake
        self._max_block_ms = max_block_ms
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self.waiting: set[asyncio.Future[None]] = set()
        """One for each who waits."""

    async def wait(self, size: int) -> None:
        """Return once so many bytes may fit. Raises BufferFull after ``max_block_ms``, Closed at the producer's end."""
        deadline = self._loop.time() + self._max_block_ms / 1_000
        try:
            async with asyncio.timeout_at(deadline):
                while not self._intake.has_room(size):
                    await self._change()
        except TimeoutError:
            raise BufferFull(
                f"no room for {size} bytes within max_block_ms={self._max_block_ms}",
                hint="The log is slower than you: wait for deliveries, or raise buffer_memory_bytes",
            ) from None

    def look_again(self) -> None:
        """There may be room now."""
        for each in self.waiting:
            if not each.done():
                each.set_result(None)

    def refuse(self, error: PenstockError) -> None:
        """Whoever waits now gets this."""
        for each in self.waiting:
            if not each.done():
                each.set_exception(error)

    async def _change(self) -> None:
        changed: asyncio.Future[None] = self._loop.create_future()
        self.waiting.add(changed)
        try:
            self._hurry()
            await changed
        finally:
            self.waiting.discard(changed)
