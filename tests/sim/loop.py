"""SimLoop: an event loop without sockets, threads and waiting: time jumps to the next timer, connections are simulated.

What must not live here: what goes wrong, and when (`wire`, `disk`, `schedule`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from tests.sim.wire import Net

__all__ = ["SimLoop", "Stuck", "passing"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_LEAST_S = 1e-6
"""Work in a thread takes time, so that others go on meanwhile."""


class Stuck(Exception):
    """Nothing will ever happen again, or virtual time ran on and on."""


class _Due(asyncio.TimerHandle):
    """A call that is to come, without what asyncio keeps in its own for debugging: there are thousands in a second."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[[Unpack[Ts]], object], args: tuple[*Ts], context: Context | None
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context if context is not None else copy_context()
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._args = ()


class SimLoop(asyncio.BaseEventLoop):
    """Begins at second 0 and must end by ``last_s``. Work in threads is done at once, in the loop's own.

    Futures, tasks and how it is run are asyncio's; what is due is kept here: it would cost more than what it calls.
    Calls of one moment come in the order in which they were asked for. ``failed`` hears of those that raise.
    """

    net: Net

    def __init__(self, last_s: float, failed: Callable[[BaseException], None]) -> None:
        super().__init__()
        self.now = 0.0
        self.last_s = last_s
        self._failed = failed
        self._soon: deque[_Due] = deque()
        self._timers: list[tuple[float, int, _Due]] = []
        self._asked = 0

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        due = _Due(self.now, callback, args, context)
        self._soon.append(due)
        return due

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        due = _Due(when, callback, args, context)
        self._asked += 1
        heappush(self._timers, (when, self._asked, due))
        return due

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            self.call_later(_LEAST_S, _fail, future, error)
        else:
            self.call_later(_LEAST_S, _succeed, future, result)
        return future

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.net.connect(protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.net.listen(protocol_factory, host, port)

    # What BaseEventLoop leaves to those below it.

    def _run_once(self) -> None:
        """One turn: what was asked for until now. If there is nothing, time jumps to where there is."""
        soon, timers = self._soon, self._timers
        if not soon:
            self._jump()
        now = self.now
        while timers and timers[0][0] <= now:
            soon.append(heappop(timers)[2])
        for _ in range(len(soon)):
            due = soon.popleft()
            if not due._cancelled:
                try:
                    run: Any = due._context.run
                    run(due._callback, *due._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._failed(error)

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            raise Stuck("nothing will ever happen: every task waits for another")
        self.now = max(self.now, timers[0][0])
        if self.now > self.last_s:
            raise Stuck(f"{self.last_s:g} s of virtual time have passed: something waits for ever")

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def passing(seconds: float) -> None:
    """So much virtual time passes, in no time at all."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    loop.call_later(seconds, _succeed, done, None)
    await done
