"""AsyncioRuntime: the clock, timers, tasks and threads of a node, over the running event loop.

The only place where a node touches asyncio on its services' behalf. On a loop with virtual time, everything here is
virtual too, if the loop's ``time`` and the ``wall_clock_ms`` passed in are.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from penstock.net._begun import begin
from penstock.net.serving_clock import ServingClock, ServingTimer

__all__ = ["AsyncioPromise", "AsyncioRuntime"]

T = TypeVar("T")
_log = logging.getLogger("penstock.node")


class AsyncioPromise(Generic[T]):
    """A value set once. Several may wait; cancelling one waiter leaves the others waiting.

    Each waiter has a future of its own, so that whoever waits goes on in the turn of the loop that follows `set`; and a
    promise that is kept before anybody waits costs none.
    """

    __slots__ = ("_loop", "_value", "_waiting", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []
        self._value: T
        self.done = False

    def set(self, value: T) -> None:
        if self.done:
            return
        self._value = value
        self.done = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(future)
            try:
                yield from future
            except BaseException:
                if future in self._waiting:
                    self._waiting.remove(future)
                raise
        return self._value


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class AsyncioRuntime:
    """``penstock.seams.runtime.Runtime`` over the event loop that runs when it is made.

    ``on_failure`` is called with the first exception that escapes a spawned task: the node ends itself there.
    ``threads`` bounds the blocking work (fsync) that runs at once.
    """

    def __init__(
        self,
        on_failure: Callable[[BaseException], None] | None = None,
        *,
        threads: int = 4,
        wall_clock_ms: Callable[[], int] = _wall_clock_ms,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.clock = ServingClock(self._loop)
        self._on_failure = on_failure
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.now_ms = wall_clock_ms
        self._random_bytes = random_bytes

    def monotonic(self) -> float:
        return self.clock.time()

    def promise(self) -> AsyncioPromise[Any]:
        return AsyncioPromise(self._loop)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.Handle | ServingTimer:
        # The next turn of the loop needs no place among the timers.
        return self.clock.call_later(delay_s, callback) if delay_s > 0 else self._loop.call_soon(callback)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            begun = begin(work)
        except Exception as error:
            self._tell(name, error)
        else:
            if begun is not None:
                self.spawn(begun.rest(), name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def in_thread(self, work: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="penstock")
        return await self._loop.run_in_executor(self._executor, work)

    def random_bytes(self, count: int) -> bytes:
        return self._random_bytes(count)

    async def stop(self) -> None:
        """Cancel what was spawned, wait for it, and end the threads once their work is done."""
        self.clock.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._executor is not None:
            # Blocks the loop for the rest of at most one fsync a thread; nothing else runs any more.
            executor, self._executor = self._executor, None
            executor.shutdown(wait=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._tell(task.get_name(), error)

    def _tell(self, name: str, error: BaseException) -> None:
        _log.error("%s failed", name, exc_info=error)
        if self._on_failure is not None:
            self._on_failure(error)
