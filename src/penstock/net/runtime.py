"""AsyncioRuntime: the clock, timers, tasks and threads of a node, over the running event loop.

This is the only place where a node's services touch asyncio. Everything here is virtual on a loop with virtual time, if
``wall_clock_ms`` is virtual as well. `ServingClock` is the clock for deadlines of clients, and `run_eagerly` starts a
coroutine without a task.
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

# Eager start: a coroutine runs where it is made, outside any task, and gets a task only if it has to wait.
#
# Nearly all requests are answered without waiting. A task, which the loop starts an iteration later, would cost more
# than the request itself. Code before the first wait must not use the current task (as `asyncio.timeout` does).


class SuspendedCoroutine:
    """The rest of a coroutine that has to wait. Await it once, in a task."""

    __slots__ = ("_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._work = work
        self._for = waits_for

    @coroutine
    def rest(self) -> Generator[Any, Any, Any]:
        """Run the coroutine to its end and return its result."""
        work, waits_for = self._work, self._for
        try:
            if asyncio.isfuture(waits_for):
                if waits_for.done():
                    waits_for = work.send(None)  # the future was done before the task started
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
    """Run ``work`` up to its first wait. Return its result, or what is left to await. Raises its exceptions."""
    try:
        waits_for = work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    return waits(work, waits_for)


def waits(work: Coroutine[Any, Any, Any], waits_for: Any) -> SuspendedCoroutine:
    """Wrap the rest of ``work``, which has been started and yielded ``waits_for``."""
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = False  # otherwise others could not await it until there is a task
    return SuspendedCoroutine(work, waits_for)


# ServingClock: the clock for deadlines of a node's clients, which stops while the event loop cannot serve them.
#
# A heartbeat that waits in a socket is not late. The node is, because one piece of work held its loop, the process was
# stopped (SIGSTOP), or its machine was suspended. Such time counts for no session, transaction, request or lock. Real
# brokers count it: after a long pause of their JVM they expire members that were there all along.
#
# Record timestamps are wall clock time and independent of this.


_TICK_S: Final = 0.25
_STEP_S: Final = 0.5
"""The maximum that passes between two ticks. Ticks further apart mean that the loop was away, not just busy."""
_CLOSE_S: Final = 0.002
"""Tolerance for timers that fire early, because loops have clocks of a millisecond."""
_WORTH_TELLING_S: Final = 3.0


class ServingClock:
    """Monotonic seconds, of which at most `_STEP_S` pass between two ticks of the loop.

    Between ticks it follows the loop's own clock. If a tick finds more than the step, the excess is left out for good:

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
        """Seconds left out so far."""
        return self._away

    def time(self) -> float:
        """The time in seconds."""
        now = self._now()
        return (now if now < self._most else self._most) - self._away

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ServingTimer:
        """Call ``callback`` when this clock has advanced by ``delay_s`` seconds."""
        return ServingTimer(self, self._loop, delay_s, callback)

    def stop(self) -> None:
        """Stop the ticks; the clock is no longer used."""
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
    """A timer of `ServingClock.call_later`."""

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
        """Cancel the callback; nothing happens if it has run."""
        self._handle.cancel()

    def _ring(self) -> None:
        left_s = self._due - self._clock.time()
        if left_s > _CLOSE_S:
            # The loop was away. Data that arrived meanwhile is read from the sockets before this fires again.
            self._handle = self._loop.call_later(left_s, self._ring)
        else:
            self._callback()


T = TypeVar("T")
_log = logging.getLogger("penstock.node")


class AsyncioPromise(Generic[T]):
    """A value set once. Several callers may wait; cancelling one leaves the others waiting.

    Each waiter has its own future, so that it continues in the iteration of the loop after `set`. A promise that is set
    before anything waits needs no future.
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

    ``on_failure`` gets the first exception that escapes a spawned task; the node ends itself there. ``threads`` limits
    how much blocking work (fsync) runs at once.
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
        # The loop's next iteration needs no timer.
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
        """Cancel the spawned tasks, wait for them, and end the threads after their work."""
        self.clock.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._executor is not None:
            # Blocks the loop for the rest of at most one fsync per thread; nothing else runs any more.
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
