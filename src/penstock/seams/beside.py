"""Work that would keep everybody else waiting: in a thread, or on the loop with turns for others in between.

One piece at a time in a thread bounds its memory, and leaves threads to those who wait for the disk. What must not live
here: what is done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, Final, TypeVar

from penstock.seams.memory import Memory
from penstock.seams.runtime import Promise, Runtime
from penstock.seams.turns import Turn

__all__ = ["STEP_BYTES", "Beside", "Turns"]

T = TypeVar("T")

STEP_BYTES: Final = 20_000
_STEPS: Final = 1_000
_AT_ONCE: Final = 200


class Beside:
    """One a front."""

    def __init__(self, runtime: Runtime, memory: Memory) -> None:
        self._runtime = runtime
        self._memory = memory
        self._busy: Promise[Any] | None = None

    async def run(self, work: Callable[[], T], holds: int = 0) -> T:
        """What ``work`` returns, which is begun after all that was asked for before, and takes ``holds`` bytes."""
        while self._busy is not None:
            await self._busy
        busy = self._busy = self._runtime.promise()
        try:
            with self._memory.reserved(holds):
                return await self._runtime.in_thread(work)
        finally:
            self._busy = None
            busy.set(None)


class Turns:
    """What all clients of a front do in one turn of the loop is bounded, so that small requests come in between.

    It is counted in steps of about ten microseconds; to copy ``STEP_BYTES`` is one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = Turn(_STEPS, lambda callback: runtime.call_later(0, callback))

    async def take(self, steps: int) -> None:
        """Return in a turn in which so much may be done, after all who came before."""
        if self._turn.over or self._turn.waited_for:
            mine: Promise[None] = self._runtime.promise()
            self._turn.wait(lambda: self._grant(steps, mine))
            await mine
        else:
            self._turn.spend(steps)

    async def through(self, things: Collection[T], steps: int) -> AsyncIterator[T]:
        """One after the other, each taking so many steps."""
        at_once = max(1, _AT_ONCE // steps)
        for row, thing in enumerate(things):
            if not row % at_once:
                await self.take(min(at_once, len(things) - row) * steps)
            yield thing

    def _grant(self, steps: int, to: Promise[None]) -> None:
        self._turn.spend(steps)
        to.set(None)
