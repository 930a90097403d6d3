"""Waiting in a thread and on the loop: time slices, a fair lock, timers, notifications, background tasks.

A thread waits in slices. A signal that arrives just before a wait, or in another thread, does not end the wait; its
handler runs only between two slices. Once the interpreter ends, no thread runs the loop of synchronous clients
(`background_loop`), so the waiting thread runs it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from penstock import _clock
from penstock.errors import Closed, LocalError
from penstock.model import Partition

__all__ = [
    "LONGEST_S",
    "Background",
    "CoalescingTimer",
    "Ended",
    "FairLock",
    "Notifier",
    "Rung",
    "ended",
    "failed_inside",
    "guarded",
    "next_of",
    "report_failure",
    "ring_after",
]

T = TypeVar("T")

LONGEST_S: Final = 1.0
"""The length of a slice: the longest time that a signal handler may be delayed."""


_TURN_S: Final = 0.01


class Ended:
    """Set when the interpreter ends, for threads that wait."""

    def __init__(self) -> None:
        self.run_loop: Callable[[float], None] | None = None
        """Runs the loop for so many seconds; None while the loop has its own thread."""


ended: Final = Ended()


def next_of(queue: SimpleQueue[T], until: float | None = None) -> T:
    """The queue's next item. Raises Empty if there is none by ``until``, a time of ``_clock.monotonic``."""
    while True:
        left = LONGEST_S if until is None else min(LONGEST_S, max(0.0, until - _clock.monotonic()))
        try:
            if ended.run_loop is not None:
                ended.run_loop(min(left, _TURN_S))
                return queue.get_nowait()
            return queue.get(timeout=left)
        except Empty:
            if until is not None and _clock.monotonic() >= until:
                raise


# Acquiring a free lock needs no await and no task.
class FairLock:
    """A first-come, first-served lock of one event loop. ``leave`` passes it directly to the next waiter.

    So a task that comes later cannot overtake a waiting one.
    """

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take the lock if it is free, without waiting; True if the caller now has it and must ``leave``."""
        if self._taken:
            return False
        self._taken = True
        return True

    def leave(self) -> None:
        """Release the lock to the next waiter."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False

    async def __aenter__(self) -> None:
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()  # the lock arrived together with the exception that ended the wait
            raise

    async def __aexit__(self, *_: object) -> None:
        self.leave()


# A timer that fires at the earliest of the requested times and is rarely cancelled.
#
# The time of a loop's timer is kept here, because uvloop's timers cannot report it when they fire at once. A timer may
# fire before its time is reached: uvloop counts whole milliseconds and rounds, so up to half a millisecond early
# (asyncio's timers are never early).
_ROUNDING_S: Final = 0.001


def ring_after(
    loop: asyncio.AbstractEventLoop, when: float, callback: Callable[..., object], *args: Any
) -> asyncio.Handle:
    """Call it when the loop's clock has reached ``when``.

    For callbacks that check the clock and would not be called again if they came too early.
    """
    return loop.call_at(when + _ROUNDING_S, callback, *args)


class CoalescingTimer:
    """Calls ``ring`` on the loop. ``ring`` handles what is due and sets the next time. Times are the loop's."""

    __slots__ = ("_handle", "_loop", "_ring", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._when = 0.0

    def ring_by(self, when: float) -> None:
        """Fire at ``when``, unless the timer fires earlier anyway."""
        if self._handle is not None:
            if self._when <= when:
                return
            self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_at(when, self._rings)

    def cancel(self) -> None:
        """Do not fire."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _rings(self) -> None:
        self._handle = None
        self._ring()


# Notifications for polls: set on the loop, waited for on the loop or in the thread that polls.
class Rung(Protocol):
    """An object that ``put`` wakes."""

    def put(self, what: None, /) -> None: ...


class Notifier:
    """A flag with waiters, created on the loop. ``set`` holds until ``clear``, as in an Event.

    One timer serves all waiters with a deadline: it may fire for nothing, but most polls start and cancel no timer.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []
        self._alarm = CoalescingTimer(self._loop, self._wake)
        self._bell: Rung | None = None

    def set(self) -> None:
        """There is news: wake all waiters."""
        self._is_set = True
        if self._waiting:
            self._wake()
        if (bell := self._bell) is not None:
            bell.put(None)

    def clear(self) -> None:
        """The news is being handled."""
        self._is_set = False

    def ring(self) -> None:
        """Wake the thread that waits in ``wait_here``. From any thread, and in a signal handler."""
        if (bell := self._bell) is not None:
            bell.put(None)

    async def wait(self, until: float) -> None:
        """Return when there is news, at ``until`` (loop time) at the latest, or spuriously: check after it."""
        if self._is_set:
            return
        woken: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(woken)
        self._alarm.ring_by(until)
        try:
            await woken
        finally:
            if woken in self._waiting:
                self._waiting.remove(woken)

    def hang_bell(self, bell: Rung | None = None) -> None:
        """Register a waiter in a thread: ``wait_here``, or ``bell``; check for data before waiting."""
        self._bell = bell or SimpleQueue()  # not a lock of ours that a signal handler could find held

    @property
    def bell_hangs(self) -> bool:
        """Whether a thread waits, or is about to. May be read from any thread."""
        return self._bell is not None

    def take_bell_down(self) -> None:
        """No thread waits any more."""
        self._bell = None

    def wait_here(self, seconds: float) -> None:
        """Block this thread until there is news since ``hang_bell``, for at most ``seconds`` or one slice."""
        assert isinstance(self._bell, SimpleQueue)
        try:
            self._bell.get(timeout=min(max(0.0, seconds), LONGEST_S))
        except Empty:
            return

    def close(self) -> None:
        """Cancel the timer."""
        self._alarm.cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


# Unexpected exceptions where no caller could catch them.
#
# A loop's callback or a background task that raises must not leave another task waiting for ever. The exception goes
# to the owner of the work, as an error that names the work.
Ts = TypeVarTuple("Ts")


def failed_inside(what: str, error: BaseException, partition: Partition | None = None) -> LocalError:
    """The error that users get for ``error``, which becomes its cause."""
    failure = LocalError(
        f"{what} failed inside: {error!r}",
        topic=None if partition is None else partition.topic,
        partition=None if partition is None else partition.id,
        hint="This is a bug of penstock: please report it, with the traceback in the log",
    )
    failure.__cause__ = error
    return failure


def guarded(work: Callable[[*Ts], object], failed: Callable[[Exception], object]) -> Callable[[*Ts], None]:
    """``work`` as a loop's callback: its exceptions go to ``failed``."""

    def run(*arguments: *Ts) -> None:
        try:
            work(*arguments)
        except Exception as error:
            failed(error)

    return run


def report_failure(failed: Callable[[BaseException], object]) -> Callable[[asyncio.Task[None]], None]:
    """A done callback for a task that is never awaited: its exception goes to ``failed``."""

    def look(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    return look


class Background:
    """Tasks of ``whose`` that are never awaited; their exceptions go to ``failed`` until all tasks are ended."""

    def __init__(self, whose: str, failed: Callable[[BaseException], object]) -> None:
        self._whose = whose
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work, name=f"penstock {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Cancel all tasks, and return when they are gone."""
        self._over = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = Closed(f"a task of {self._whose} was cancelled") if task.cancelled() else task.exception()
        if error is not None and not self._over:
            self._failed(error)
