"""How calls and clients end: interrupts by ``close`` and ``wakeup``, the deadline of a close, reports of lost records.

Interrupts holds the waiting calls of a client. It takes no lock, because a signal handler, which may run at any point,
may call both methods.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from msgspec import Struct

from penstock.client.errors import WakeUp
from penstock.config import ClientConfig
from penstock.config.client import ClientLog
from penstock.errors import Closed, PenstockError
from penstock.interfaces import LogClient

if TYPE_CHECKING:
    from penstock.client.producer.delivery import BatchFuture

__all__ = [
    "AtOnce",
    "CloseDeadline",
    "Ending",
    "GiveUp",
    "Heard",
    "Interrupts",
    "Rest",
    "Wait",
    "error_of",
    "hang_up",
    "on_error_s",
    "tell_beside",
    "undelivered",
]

_LEAVING_S: Final = 1.0

Rest: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""The remaining work of a call that was begun without a task."""
Heard: TypeAlias = Callable[[Rest | None], None]
"""Called when such a call is over (None), or with its remaining work. Raises nothing."""
GiveUp: TypeAlias = Callable[[], None]
"""Stop waiting for such a call: its ``Heard`` is not called any more. Does nothing once the call is over."""
AtOnce: TypeAlias = Callable[[Heard], GiveUp | None]
"""Begins such a call, if it need not wait for anything first. ``Heard`` is called after this has returned."""


class _Wakeup(Struct):
    """One wakeup: the number of its calls that are not over, and whether one of them was ended by it."""

    left: int
    heard: bool = False


class Wait:
    """One call that is under way in a task, as a context manager.

    A wakeup cancels the call where it is, which must do no harm. With ``gently``, the call ends where it calls
    ``check`` itself; wakeup calls ``gently`` and resolves ``over``.
    """

    def __init__(self, all_of_them: Interrupts, *, wakes: bool, gently: Callable[[], None] | None) -> None:
        self._all = all_of_them
        self._gently = gently
        self._error: PenstockError | None = None
        self._wakeup: _Wakeup | None = None
        self._cancelled = False
        self._cancelling = 0
        self.wakes = wakes
        self.task: asyncio.Task[object] | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Self:
        self.task = asyncio.current_task()
        self._cancelling = self.task.cancelling() if self.task is not None else 0
        self._all.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all.leave(self)
        if self._wakeup is not None:
            self._all.heard(self._wakeup, by_this=self._cancelled or error is self._error)
        if self._cancelled and self.task is not None:
            still = self.task.uncancel() > self._cancelling
            if kind is asyncio.CancelledError and not still and self._error is not None:
                raise self._error from None

    def check(self) -> None:
        """Raise the error that this call was ended with, if any."""
        if self._error is not None:
            raise self._error

    def wake(self, wakeup: _Wakeup) -> None:
        """End the call at its next check. It may already be past its last one; then the wakeup has no effect here."""
        self._wakeup = wakeup
        if self._gently is None:
            self.end(_woken())
            return
        self._error = self._error or _woken()
        if not self.over.done():
            self.over.set_result(None)
        self._gently()

    def end(self, error: PenstockError) -> None:
        """Cancel the call where it is."""
        if not self._cancelled and self.task is not None:
            self._error = error
            self._cancelled = True
            self.task.cancel()


class WaitInNoTask:
    """One call that is under way without a task; wakeups do not apply to it.

    ``heard`` is called once with the remaining work. The call is over then, and the remaining work waits as a call of
    its own.
    """

    wakes = False
    task = None

    def __init__(self, all_of_them: Interrupts, heard: Heard) -> None:
        self._all = all_of_them
        self._heard = heard
        self._give_up: Callable[[], None] = _nobody

    def begin(self, at_once: AtOnce) -> GiveUp | None:
        """The function that gives the call up, if it has begun. Raises the errors of ``at_once``."""
        give_up = at_once(self._told)
        if give_up is None:
            return None
        self._give_up = give_up
        self._all.begin(self)
        return self.give_up

    def give_up(self) -> None:
        """Stop waiting for the call and for its remaining work."""
        self._all.leave(self)
        self._give_up()

    def end(self, error: PenstockError) -> None:
        """End the call with an error."""
        self.give_up()
        self._heard(partial(_raised, error))

    def _told(self, rest: Rest | None) -> None:
        self._all.leave(self)
        self._heard(None if rest is None else partial(self._go_on, rest))

    async def _go_on(self, rest: Rest) -> None:
        with self._all.call():
            await rest()


class Interrupts:
    """The waiting calls of one client. ``pending``: there was a wakeup that has not ended any call yet."""

    def __init__(self) -> None:
        self._waits: set[Wait | WaitInNoTask] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left: asyncio.Event | None = None
        self.pending = False
        self.ring: Callable[[], None] = _nobody
        """Wakes a thread that waits without the loop."""

    @property
    def waiting(self) -> bool:
        """Whether a call is under way."""
        return bool(self._waits)

    def call(self, *, wakes: bool = False, gently: Callable[[], None] | None = None) -> Wait:
        """A context manager for a waiting call. It raises Closed when the client is closed, WakeUp if it ``wakes``."""
        return Wait(self, wakes=wakes, gently=gently)

    def at_once(self, begin: AtOnce, heard: Heard) -> GiveUp | None:
        """As ``begin``, for a call that ``close`` ends; its remaining work can be ended too."""
        return WaitInNoTask(self, heard).begin(begin)

    def wakeup(self) -> None:
        """End a waiting call, or else the next one. From any thread, and in a signal handler."""
        self.pending = True
        self.ring()
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and every call with it
                loop.call_soon_threadsafe(self._wake)

    async def end(self, error: Closed) -> None:
        """End all calls except the current one; returns when they are over."""
        mine = asyncio.current_task()
        others = {wait for wait in self._waits if wait.task is not mine}
        for wait in others:
            wait.end(error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while others & self._waits:
                    self._left = asyncio.Event()
                    await self._left.wait()

    def begin(self, wait: Wait | WaitInNoTask) -> None:
        """A call begins to wait. Raises WakeUp if a wakeup is pending."""
        self._loop = asyncio.get_running_loop()
        if self.pending and wait.wakes:
            self.pending = False
            raise _woken()
        self._waits.add(wait)

    def leave(self, wait: Wait | WaitInNoTask) -> None:
        """A call no longer waits."""
        self._waits.discard(wait)
        if self._left is not None:
            self._left.set()

    def heard(self, wakeup: _Wakeup, *, by_this: bool) -> None:
        """A woken call is over. If the wakeup has ended none of its calls, it stays pending for the next one."""
        wakeup.left -= 1
        wakeup.heard |= by_this
        if not wakeup.left and not wakeup.heard:
            self.pending = True

    def _wake(self) -> None:
        waits = [wait for wait in self._waits if isinstance(wait, Wait) and wait.wakes]
        if self.pending and waits:
            self.pending = False
            wakeup = _Wakeup(len(waits))
            for wait in waits:
                wait.wake(wakeup)


async def _raised(error: PenstockError) -> None:
    raise error


def _nobody() -> None:
    """No thread waits."""


def _woken() -> WakeUp:
    return WakeUp("wakeup() was called")


# The deadline of a close: a second close of the same client can shorten it, never extend it.
_FAREWELL_S: Final = 3.0


async def hang_up(client: LogClient) -> None:
    """Close the client. A server that does not answer the goodbye is waited for only briefly."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            await client.close()


class CloseDeadline:
    """The deadline of a close that has begun; create it on the close's loop."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.seconds = seconds
        self.deadline = self._loop.time() + seconds
        self._limit: asyncio.Timeout | None = None
        self._over = asyncio.Event()

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """A block that ends with TimeoutError at the deadline; must not be nested."""
        async with asyncio.timeout_at(self.deadline) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    async def hurry(self, seconds: float | None, *, wait: bool = True) -> None:
        """A second close with its own timeout; returns when the first one is complete."""
        if seconds is not None and (deadline := self._loop.time() + seconds) < self.deadline:
            self.deadline, self.seconds = deadline, seconds
            if self._limit is not None and not self._limit.expired():
                self._limit.reschedule(deadline)
        if wait:
            await self._over.wait()

    def __enter__(self) -> Self:
        """Encloses the whole close."""
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()


# The result of a close, reported without replacing an exception that is being raised.
class Ending(Struct, frozen=True):
    """The records that a producer did not deliver, by topic; ``error`` is an earlier error that was never read."""

    lost: Counter[str]
    error: PenstockError | None

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} {count:,}" for topic, count in sorted(self.lost.items()))
        plural = "records were" if self.lost.total() > 1 else "record was"
        return f"{self.lost.total():,} {plural} not acknowledged when the producer was closed ({topics})"

    def tell(self, log: ClientLog) -> None:
        """Log the lost records, if any."""
        if self.lost:
            log.warning("%s", self)

    def complain(self, *, of_lost: bool) -> None:
        """Raise the unread error; else Closed if records were lost."""
        if self.error is not None:
            raise self.error
        if self.lost and of_lost:
            raise Closed(str(self), hint="They may be stored all the same; close_timeout_ms says how long to try")

    def tell_beside(self, error: BaseException) -> None:
        """Add notes to an exception that continues."""
        if self.error is not None:
            tell_beside(error, f"an earlier delivery failed: {self.error}")
        if self.lost:
            tell_beside(error, f"{self}; close_on_error_timeout_ms says how long to try")


def tell_beside(error: BaseException, what: str) -> None:
    """Add a note to an exception, which continues unchanged."""
    error.add_note(f"penstock: {what}")


def on_error_s(config: ClientConfig) -> float:
    """How long a close that follows an exception may take."""
    return config.close_on_error_timeout_ms / 1_000


def undelivered(outcomes: Iterable[BatchFuture]) -> Counter[str]:
    """Records by topic that were not stored, as far as known, of settled deliveries."""
    lost: Counter[str] = Counter()
    for outcome in outcomes:
        fates = [fate for run in outcome.runs or () for fate in run.fates]
        if outcome.error is not None:
            lost[outcome.topic] += outcome.rows - sum(fate.rows for fate in fates if fate.error is None)
        else:
            lost[outcome.topic] += sum(fate.rows for fate in fates if fate.error is not None)
    return +lost


def error_of(unseen: BatchFuture | None) -> PenstockError | None:
    """The error of a delivery whose result was never read."""
    return None if unseen is None or unseen.seen else unseen.first_error()
