"""Work that would keep everybody else waiting: in a thread, or on the loop with turns for others in between.

One piece at a time in a thread bounds its memory, and leaves threads to those who wait for the disk. What must not live
here: what is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.seams.runtime import Promise, Runtime

__all__ = ["Beside", "Turns"]


class Beside:
    """One a front."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._busy: Promise[Any] | None = None

    async def run(self, work: Callable[[], None]) -> None:
        """Return when ``work`` has been done, after all that was asked for before."""
        while self._busy is not None:
            await self._busy
        busy = self._busy = self._runtime.promise()
        try:
            await self._runtime.in_thread(work)
        finally:
            self._busy = None
            busy.set(None)


class Turns:
    """Large answers are put together one in each turn of the loop, so that small requests come in between."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._taken: Promise[Any] | None = None

    async def wait(self) -> None:
        """Return when no large answer has been put together in this turn."""
        while self._taken is not None:
            await self._taken

    def take(self) -> None:
        """A large one was."""
        if self._taken is None:
            self._taken = self._runtime.promise()
            self._runtime.call_later(0, self._next)

    def _next(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None:
            taken.set(None)
