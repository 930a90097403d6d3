"""Waiting in a thread, in slices: a signal that comes just before a wait, or to another thread, does not end the wait,
and its handler runs only between two of them.

Once the interpreter ends, no thread runs the loop of synchronous clients (`_loop_thread`): who waits runs it meanwhile.
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
"""A slice: for so long a handler may have to wait."""


_TURN_S: Final = 0.01


class Ended:
    """What the interpreter's end changes for threads that wait."""

    def __init__(self) -> None:
        self.run_loop: Callable[[float], None] | None = None
        """Runs the loop for so many seconds; None as long as a thread of its own does."""


ended: Final = Ended()


def next_of(queue: SimpleQueue[T], until: float | None = None) -> T:
    """The queue's next thing. Raises Empty if there is none by ``until``, of ``_clock.monotonic``."""
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


# Line: one at a time, in the order in which they came; whoever finds nobody there need not wait, nor be a task.
class FairLock:
    """Lives on one event loop. Who leaves hands the turn on, so that nobody who comes later is faster."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Whether it is the caller's turn now, who then has to ``leave``; nobody is waited for."""
        if self._taken:
            return False
        self._taken = True
        return True

    def leave(self) -> None:
        """The next one goes on."""
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
                self.leave()  # it came together with what ended the wait
            raise

    async def __aexit__(self, *_: object) -> None:
        self.leave()


# Alarm: a timer that rings by the earliest of the times that it was set to, and is seldom stopped.
#
# A loop is not asked when its timer rings: uvloop has no answer for one that rings at once. And a time that a timer was
# set to need not be over when it rings: uvloop counts whole milliseconds and rounds, so that one may ring half of one
# early (asyncio's do not).
_ROUNDING_S: Final = 0.001


def ring_after(
    loop: asyncio.AbstractEventLoop, when: float, callback: Callable[..., object], *args: Any
) -> asyncio.Handle:
    """Call it once the loop's clock shows ``when``: for those who look at the clock again, and would not come back."""
    return loop.call_at(when + _ROUNDING_S, callback, *args)


class CoalescingTimer:
    """Calls ``ring`` on the loop, which looks what is due, and says when to ring again. Times are the loop's."""

    __slots__ = ("_handle", "_loop", "_ring", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._when = 0.0

    def ring_by(self, when: float) -> None:
        """Ring then, unless it rings earlier already."""
        if self._handle is not None:
            if self._when <= when:
                return
            self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_at(when, self._rings)

    def cancel(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _rings(self) -> None:
        self._handle = None
        self._ring()


# News: something has changed that polls wait for. Told on the loop, waited for there or in the thread that polls.
class Rung(Protocol):
    """What is rung by ``put``."""

    def put(self, what: None, /) -> None: ...


class Notifier:
    """Made inside the loop. ``set`` holds until ``clear``, as an Event's.

    One timer serves all that wait until some time: it may ring for nothing, but most polls start and stop none.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []
        self._alarm = CoalescingTimer(self._loop, self._wake)
        self._bell: Rung | None = None

    def set(self) -> None:
        """There are some."""
        self._is_set = True
        if self._waiting:
            self._wake()
        if (bell := self._bell) is not None:
            bell.put(None)

    def clear(self) -> None:
        """They are looked at now."""
        self._is_set = False

    def ring(self) -> None:
        """Have the thread look that waits in ``wait_here``. From any thread, and from a signal's handler."""
        if (bell := self._bell) is not None:
            bell.put(None)

    async def wait(self, until: float) -> None:
        """Return when there are some, at ``until`` (loop time) at the latest, or for nothing: look whether it is."""
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
        """From now on ``wait_here`` hears of what comes, or who waits for ``bell``: look whether something has come
        before, then wait."""
        self._bell = bell or SimpleQueue()  # no lock of ours that a signal's handler could meet

    @property
    def bell_hangs(self) -> bool:
        """Whether a thread waits, or is about to. May be asked from any thread."""
        return self._bell is not None

    def take_bell_down(self) -> None:
        """Nobody waits in a thread any more."""
        self._bell = None

    def wait_here(self, seconds: float) -> None:
        """Block this thread until there are some since the bell was hung, for ``seconds`` or a moment at most."""
        assert isinstance(self._bell, SimpleQueue)
        try:
            self._bell.get(timeout=min(max(0.0, seconds), LONGEST_S))
        except Empty:
            return

    def close(self) -> None:
        """No timer is left."""
        self._alarm.cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


# Errors of our own: an exception that nobody planned for, where nobody waits who could catch it.
#
# A loop's callback or a background task that raises one must not leave somebody else waiting for ever: it is told to
# whoever owns the work, as an error that names it.
Ts = TypeVarTuple("Ts")


def failed_inside(what: str, error: BaseException, partition: Partition | None = None) -> LocalError:
    """The error that users get for ``error``, which is its cause."""
    failure = LocalError(
        f"{what} failed inside: {error!r}",
        topic=None if partition is None else partition.topic,
        partition=None if partition is None else partition.id,
        hint="This is a bug of penstock: please report it, with the traceback in the log",
    )
    failure.__cause__ = error
    return failure


def guarded(work: Callable[[*Ts], object], failed: Callable[[Exception], object]) -> Callable[[*Ts], None]:
    """``work`` as a loop may call it: what it raises goes to ``failed``."""

    def run(*arguments: *Ts) -> None:
        try:
            work(*arguments)
        except Exception as error:
            failed(error)

    return run


def report_failure(failed: Callable[[BaseException], object]) -> Callable[[asyncio.Task[None]], None]:
    """The callback of a task that nobody awaits: what it raised goes to ``failed``."""

    def look(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    return look


class Background:
    """Tasks of ``whose`` that nobody awaits: ``failed`` hears of what they raise, until all of them are ended."""

    def __init__(self, whose: str, failed: Callable[[BaseException], object]) -> None:
        self._whose = whose
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Have it done."""
        task = asyncio.get_running_loop().create_task(work, name=f"penstock {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Cancel all of them, and return when they are gone."""
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
