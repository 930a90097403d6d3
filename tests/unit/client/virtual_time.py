"""An event loop whose time passes at once: when nothing is left to do, it is the next timer's time already."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from penstock.client.runtime.imports import load
from penstock.protocols import protocol

# A client would do it in a thread of its own, for which this loop does not wait: with nothing else to do it gives up.
load(protocol("kafka"), "consumer", "member", "newer member", "columns", "producer")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_STUCK = 1e7
_WORKING_S = 1.0
"""So much real time a thread gets for what is done beside the loop, before time goes on without it."""


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for ``timeout`` seconds, says that they have passed."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(_WORKING_S if timeout != 0 and self.loop.working else 0)
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen: every task waits for another")
        if not ready and timeout:
            self.loop.now += timeout
            assert self.loop.now < _STUCK, "months have passed: something waits for ever"
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at second 0. Timers count whole milliseconds and round, as uvloop's do: one may ring half of one early."""

    def __init__(self) -> None:
        self.now = 0.0
        self.working = 0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Time stands still meanwhile: how long a thread takes in truth must decide nothing."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self.working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, future: asyncio.Future[Any]) -> None:
        del future
        self.working -= 1

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        early = round(when, 3)
        return super().call_at(early if early > self.now else when, callback, *args, context=context)


async def passing(seconds: float) -> None:
    """So much virtual time passes, in no time at all."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, done.set_result, None)
    await done


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work`` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
