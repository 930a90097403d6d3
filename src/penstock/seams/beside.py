"""Work that would keep everybody else waiting: in a thread, or on the loop with turns for others in between.

One piece at a time in a thread bounds its memory, and leaves threads to those who wait for the disk. What must not live
here: what is done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from penstock.errors import UsageError
from penstock.seams.memory import Memory
from penstock.seams.runtime import Promise, Runtime
from penstock.seams.turns import Turn

__all__ = ["ENTRY_BYTES", "STEP_BYTES", "Beside", "Pace", "Turns"]

T = TypeVar("T")

STEP_BYTES: Final = 20_000
_STEPS: Final = 1_000
_AT_ONCE: Final = 200
_ENTRIES_A_HOLD: Final = 1_000
ENTRY_BYTES: Final = 1_000
"""What one entry of a request takes, decoded, with what is answered to it: measured from 300 to 900 bytes."""


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


class Pace:
    """How one request goes through its entries: the loop is given back between them, and their answers are counted.

    A request of few entries never waits for its turn.
    """

    __slots__ = ("_held", "_left", "_memory", "_most", "_turns", "entries")

    def __init__(self, turns: Turns, memory: Memory, most: int) -> None:
        self._turns = turns
        self._memory = memory
        self._most = most
        self._left: float = _AT_ONCE
        self._held = 0
        self.entries = 0

    async def spend(self, entries: int = 1, steps: float = 1) -> None:
        """To be called for so many entries, which took, or are about to take, so many steps of about ten microseconds.

        An entry takes a fifth of a step at least. Raises UsageError for an answer that has too many entries.
        """
        self.entries += entries
        self._left -= steps
        if self._left < 0:
            await self._rest()

    def through(self, things: Iterable[T], steps: float = 1, entries: int = 1) -> AsyncIterator[T]:
        """One after the other, each so many entries that take so many steps."""
        return _Paced(self, things, steps, entries)

    def again(self, things: Iterable[T], steps: float = 0.2) -> AsyncIterator[T]:
        """The same for entries that have been counted before."""
        return _Paced(self, things, steps, 0)

    async def _rest(self) -> None:
        if self.entries > self._most:
            raise UsageError(f"the answer would have more than {self._most} entries", hint="Ask for fewer at once")
        grown = self.entries - self._held
        if grown > _ENTRIES_A_HOLD:
            self._held += grown
            self._memory.keep(grown * ENTRY_BYTES)
        due = _AT_ONCE - int(self._left)
        await self._turns.take(due)
        self._left += due

    def end(self) -> None:
        """The request is answered: what its answer took is given back."""
        if self._held:
            self._memory.keep(-self._held * ENTRY_BYTES)
            self._held = 0


class _Paced(AsyncIterator[T]):
    """No asynchronous generator: a loop would register each of them, which costs a small request 2 µs."""

    __slots__ = ("_entries", "_pace", "_steps", "_things")

    def __init__(self, pace: Pace, things: Iterable[T], steps: float, entries: int) -> None:
        self._pace = pace
        self._things = iter(things)
        self._steps = steps
        self._entries = entries

    async def __anext__(self) -> T:
        pace = self._pace
        for thing in self._things:
            pace.entries += self._entries
            pace._left -= self._steps
            if pace._left < 0:
                await pace._rest()
            return thing
        raise StopAsyncIteration
