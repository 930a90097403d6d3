"""SimLoop: an event loop without sockets, threads and waiting: time jumps to the next timer, connections are simulated.

What must not live here: what goes wrong, and when (`wire`, `disk`, `schedule`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from tests.sim.wire import Net

__all__ = ["SimLoop", "Stuck", "passing"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_LEAST_S = 1e-6
"""Timers of one moment go off in no order that anybody promises: each gets a moment of its own."""


class Stuck(Exception):
    """Nothing will ever happen again, or virtual time ran on and on."""


class _Jump:
    """What the loop asks whether anything has come: instead of waiting it lets the time pass."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing will ever happen: every task waits for another")
        if timeout > 0:
            self._loop.now = max(self._loop.now, self._loop.next_timer())
            if self._loop.now > self._loop.last_s:
                raise Stuck(f"{self._loop.last_s:g} s of virtual time have passed: something waits for ever")
        return []

    def close(self) -> None:
        """Nothing was open."""


class SimLoop(asyncio.BaseEventLoop):
    """Begins at second 0 and must end by ``last_s``. Work in threads is done at once, in the loop's own."""

    net: Net

    def __init__(self, last_s: float) -> None:
        super().__init__()
        self.now = 0.0
        self.last_s = last_s
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9
        self._moment = 0

    def time(self) -> float:
        return self.now

    def next_timer(self) -> float:
        return float(self._scheduled[0].when())  # type: ignore[attr-defined]

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        # Equal times would be told apart by their place in the heap; here the one that was set first is first.
        self._moment += 1
        return super().call_at(when + self._moment % 1_000_000 * 1e-12, callback, *args, context=context)

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

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

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
