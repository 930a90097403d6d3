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
from types import coroutine
from typing import Any, Final, Generic, TypeVar

__all__ = ["AsyncioPromise", "AsyncioRuntime", "ServingClock", "SuspendedCoroutine", "run_eagerly", "waits"]

# A coroutine that is begun where it is made, in no task; only one that has to wait becomes a task's.
#
# Nearly all requests are answered without waiting for anything. A task of their own, which the loop begins a turn
# later, would cost them more than what they ask for. What is done before the first wait must not ask for its task
# (`asyncio.timeout` does).


class SuspendedCoroutine:
    """The rest of a coroutine that waits. Await it once, in a task."""

    __slots__ = ("_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._work = work
        self._for = waits_for

    @coroutine
    def rest(self) -> Generator[Any, Any, Any]:
        """What the coroutine returns in the end."""
        work, waits_for = self._work, self._for
        try:
            if asyncio.isfuture(waits_for):
                if waits_for.done():
                    waits_for = work.send(None)  # it came before the task did
                else:
                    waits_for._asyncio_future_blocking = True  # the mark by which a task knows an awaited future
            while True:
                try:
                    value = yield waits_for
                except GeneratorExit:
                    work.close()
                    raise
                except BaseException as error:
                    waits_for = work.throw(error)
                else:
                    waits_for = work.send(value)
        except StopIteration as ended:
            return ended.value


def run_eagerly(work: Coroutine[Any, Any, T]) -> T | SuspendedCoroutine:
    """Run ``work`` as far as it goes without waiting: its result, or what is to be awaited. Raises what it raises."""
    try:
        waits_for = work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    return waits(work, waits_for)


def waits(work: Coroutine[Any, Any, Any], waits_for: Any) -> SuspendedCoroutine:
    """The rest of ``work``, which was begun and waits for that."""
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = False  # others could not wait for it until there is a task
    return SuspendedCoroutine(work, waits_for)


# ServingClock: the clock for deadlines of a node's clients. It stands still while the event loop cannot serve them.
#
# A heartbeat that lies in a socket is not late: the node was, because one piece of work held its loop, the process was
# stopped (SIGSTOP), or its machine was suspended. So such time counts for no session, transaction, request or lock.
# Real brokers count it: after a long pause of their Java machine they expire members that were there all along.
#
# Timestamps of records are wall clock time; nothing here has to do with those.


_TICK_S: Final = 0.25
_STEP_S: Final = 0.5
"""The most that passes between two ticks. A loop whose ticks are further apart was away; below that, it was busy."""
_CLOSE_S: Final = 0.002
"""Loops have clocks of a millisecond, so that a timer may come a little early."""
_WORTH_TELLING_S: Final = 3.0


class ServingClock:
    """Seconds that never go back; at most `_STEP_S` of them pass between two ticks of the loop.

    Between ticks it follows the loop's own clock. What a tick finds above the step is left out for good:

        loop's clock    0.0  0.25  0.5 [held for 20 s] 20.6  20.85
        this one        0.0  0.25  0.5                  1.0   1.25
    """

    __slots__ = ("_away", "_loop", "_most", "_now", "_ticker")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now = loop.time
        self._away = 0.0
        self._most = loop.time() + _STEP_S
        self._ticker = loop.call_later(_TICK_S, self._tick)

    @property
    def away_s(self) -> float:
        """Seconds that were left out so far."""
        return self._away

    def time(self) -> float:
        """Now, in seconds."""
        now = self._now()
        return (now if now < self._most else self._most) - self._away

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ServingTimer:
        """Call ``callback`` when this clock has gone on by ``delay_s`` seconds."""
        return ServingTimer(self, self._loop, delay_s, callback)

    def stop(self) -> None:
        """Nobody asks any more."""
        self._ticker.cancel()

    def _tick(self) -> None:
        now = self._now()
        away = now - self._most
        if away > 0:
            self._away += away
            if away >= _WORTH_TELLING_S:
                _log.warning(
                    "the node did not serve for %.1f s: it was held by one piece of work, stopped or suspended; "
                    "this time counts for no session or timeout of its clients",
                    away,
                )
        self._most = now + _STEP_S
        self._ticker = self._loop.call_later(_TICK_S, self._tick)


class ServingTimer:
    """Made by `ServingClock.call_later`."""

    __slots__ = ("_callback", "_clock", "_due", "_handle", "_loop")

    def __init__(
        self, clock: ServingClock, loop: asyncio.AbstractEventLoop, delay_s: float, callback: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._loop = loop
        self._callback = callback
        self._due = clock.time() + delay_s
        self._handle = loop.call_later(delay_s, self._ring)

    def cancel(self) -> None:
        """It is not called; nothing happens if it was already."""
        self._handle.cancel()

    def _ring(self) -> None:
        left_s = self._due - self._clock.time()
        if left_s > _CLOSE_S:
            # The loop was away meanwhile. What came for it is read from the sockets before this comes again.
            self._handle = self._loop.call_later(left_s, self._ring)
        else:
            self._callback()


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
    """``penstock.concurrency.runtime.Runtime`` over the event loop that runs when it is made.

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
            begun = run_eagerly(work)
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
