"""Work that would block the event loop: run in a thread, or on the loop in small steps.

`BackgroundWorker` uses a thread. `LoopBudget` and `RequestPacer` count steps of about ten microseconds of the loop. All
clients of a front share the steps of one loop iteration, so that a small request never waits behind a whole large one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from penstock.concurrency.limits import Memory
from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import UsageError

__all__ = ["ENTRY_BYTES", "STEP_BYTES", "BackgroundWorker", "LoopBudget", "LoopTurn", "RequestPacer"]


class LoopTurn:
    """A budget of ``most`` units of work for each iteration of the event loop, shared by all clients.

    Work may overrun the budget slightly. Callers that find it used up wait for a later iteration, first come, first
    served. ``soon`` schedules a callback for the next iteration of the loop.
    """

    def __init__(self, most: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self._most = self._left = most
        self._soon = soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._ends = False

    @property
    def over(self) -> bool:
        """Whether this iteration's budget is used up."""
        return self._left <= 0

    @property
    def waited_for(self) -> bool:
        """Whether a callback waits for a later iteration."""
        return bool(self._waiting)

    def spend(self, count: int) -> None:
        """Count ``count`` units as done in this iteration."""
        self._left -= count
        self._end_soon()

    def wait(self, callback: Callable[[], None]) -> None:
        """Call it in the next iteration with budget left, after all earlier callers; the callback calls `spend`."""
        self._waiting.append(callback)
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            self._soon(self._begin)

    def _begin(self) -> None:
        self._ends = False
        self._left = self._most
        while self._waiting and not self.over:
            self._waiting.popleft()()
        if self._waiting:
            self._end_soon()


T = TypeVar("T")

STEP_BYTES: Final = 20_000
_STEPS: Final = 1_000
_AT_ONCE: Final = 200
_ENTRIES_A_HOLD: Final = 1_000
ENTRY_BYTES: Final = 1_000
"""Memory that one decoded entry of a request takes together with its answer: 300 to 900 bytes were measured."""


class BackgroundWorker:
    """Runs blocking work in a thread, one piece at a time; one instance per front."""

    def __init__(self, runtime: Runtime, memory: Memory) -> None:
        self._runtime = runtime
        self._memory = memory
        self._busy: Promise[Any] | None = None

    async def run(self, work: Callable[[], T], holds: int = 0) -> T:
        """Run ``work`` in a thread after all earlier calls; return its result. It takes ``holds`` bytes meanwhile."""
        while self._busy is not None:
            await self._busy
        busy = self._busy = self._runtime.promise()
        try:
            with self._memory.reserved(holds):
                return await self._runtime.in_thread(work)
        finally:
            self._busy = None
            busy.set(None)


class LoopBudget:
    """A limit on the work that all clients of a front do in one loop iteration, so that small requests come in between.

    Work is counted in steps of about ten microseconds; copying ``STEP_BYTES`` is one step.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = LoopTurn(_STEPS, lambda callback: runtime.call_later(0, callback))

    async def take(self, steps: int) -> None:
        """Return in a loop iteration that has ``steps`` left, after all earlier callers."""
        if self._turn.over or self._turn.waited_for:
            mine: Promise[None] = self._runtime.promise()
            self._turn.wait(lambda: self._grant(steps, mine))
            await mine
        else:
            self._turn.spend(steps)

    async def through(self, things: Collection[T], steps: int) -> AsyncIterator[T]:
        """Yield ``things`` one by one, counting ``steps`` for each."""
        at_once = max(1, _AT_ONCE // steps)
        for row, thing in enumerate(things):
            if not row % at_once:
                await self.take(min(at_once, len(things) - row) * steps)
            yield thing

    def _grant(self, steps: int, to: Promise[None]) -> None:
        self._turn.spend(steps)
        to.set(None)


class RequestPacer:
    """Limits one request while it works through its entries: yields to the loop in between, and counts answers' memory.

    A request of few entries never waits.
    """

    __slots__ = ("_held", "_left", "_memory", "_most", "_turns", "entries")

    def __init__(self, turns: LoopBudget, memory: Memory, most: int) -> None:
        self._turns = turns
        self._memory = memory
        self._most = most
        self._left: float = _AT_ONCE
        self._held = 0
        self.entries = 0

    async def spend(self, entries: int = 1, steps: float = 1) -> None:
        """Count ``entries`` that took, or are about to take, ``steps`` steps of about ten microseconds together.

        An entry takes at least a fifth of a step. Raises UsageError for an answer that has too many entries.
        """
        if self.used(entries, steps):
            await self.rest()

    def used(self, entries: int, steps: float) -> bool:
        """As `spend`, without waiting: if it returns True, the caller has to await `rest`."""
        self.entries += entries
        self._left -= steps
        return self._left < 0

    def through(self, things: Iterable[T], steps: float = 1, entries: int = 1) -> AsyncIterator[T]:
        """Iterate over ``things``; each counts as ``entries`` entries and takes ``steps`` steps."""
        return _Paced(self, things, steps, entries)

    def again(self, things: Iterable[T], steps: float = 0.2) -> AsyncIterator[T]:
        """As `through`, for entries that have been counted before."""
        return _Paced(self, things, steps, 0)

    async def rest(self) -> None:
        """Let other requests have their turn. Raises UsageError for an answer that has too many entries."""
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
        """Release the memory counted for the answer, once it is sent."""
        if self._held:
            self._memory.keep(-self._held * ENTRY_BYTES)
            self._held = 0


class _Paced(AsyncIterator[T]):
    """Not an asynchronous generator: an event loop registers each of those, which costs a small request 2 µs."""

    __slots__ = ("_entries", "_pace", "_steps", "_things")

    def __init__(self, pace: RequestPacer, things: Iterable[T], steps: float, entries: int) -> None:
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
                await pace.rest()
            return thing
        raise StopAsyncIteration
