"""Interrupts: what of one client's calls waits, so that ``close`` and ``wakeup`` can end it.

Nothing here takes a lock: both may be called by a signal's handler, which may have come anywhere.
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

from penstock._dataclasses import dataclass
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
"""What is left to do for a call that was begun in no task."""
Heard: TypeAlias = Callable[[Rest | None], None]
"""Hears that such a call is over (None), or what is left of it. Raises nothing."""
GiveUp: TypeAlias = Callable[[], None]
"""Nobody waits for such a call any more, nor hears of it; once it is over this does nothing."""
AtOnce: TypeAlias = Callable[[Heard], GiveUp | None]
"""Begins such a call, if nothing has to be waited for first. ``Heard`` is called after this has returned."""


@dataclass(slots=True)
class _Wakeup:
    """One wakeup: how many calls that it was for are not over, and whether one of them has ended by it."""

    left: int
    heard: bool = False


class Wait:
    """One call that is under way in a task; entered and left there.

    ``gently``: wakeup ends it where it looks at ``check`` itself, having called this and settled ``over``; without,
    it is cancelled where it is, which must do no harm.
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
        """Raise what this was ended with, if it was."""
        if self._error is not None:
            raise self._error

    def wake(self, wakeup: _Wakeup) -> None:
        """End it where it may be ended, which it may have passed already: then nobody hears of it here."""
        self._wakeup = wakeup
        if self._gently is None:
            self.end(_woken())
            return
        self._error = self._error or _woken()
        if not self.over.done():
            self.over.set_result(None)
        self._gently()

    def end(self, error: PenstockError) -> None:
        """End it where it is."""
        if not self._cancelled and self.task is not None:
            self._error = error
            self._cancelled = True
            self.task.cancel()


class WaitInNoTask:
    """One call that is under way in no task, and that no wakeup is for. ``heard`` is called once with what is left to
    do for it, after which it is over here: what is left waits as a call of its own.
    """

    wakes = False
    task = None

    def __init__(self, all_of_them: Interrupts, heard: Heard) -> None:
        self._all = all_of_them
        self._heard = heard
        self._give_up: Callable[[], None] = _nobody

    def begin(self, at_once: AtOnce) -> GiveUp | None:
        """What gives it up, if it has begun. Raises what ``at_once`` does."""
        give_up = at_once(self._told)
        if give_up is None:
            return None
        self._give_up = give_up
        self._all.begin(self)
        return self.give_up

    def give_up(self) -> None:
        """Nobody waits for it any more, nor for what was left to do for it."""
        self._all.leave(self)
        self._give_up()

    def end(self, error: PenstockError) -> None:
        """End it where it is."""
        self.give_up()
        self._heard(partial(_raised, error))

    def _told(self, rest: Rest | None) -> None:
        self._all.leave(self)
        self._heard(None if rest is None else partial(self._go_on, rest))

    async def _go_on(self, rest: Rest) -> None:
        with self._all.call():
            await rest()


class Interrupts:
    """The calls of one client that wait. ``pending``: of a wakeup that no call has heard of yet."""

    def __init__(self) -> None:
        self._waits: set[Wait | WaitInNoTask] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left: asyncio.Event | None = None
        self.pending = False
        self.ring: Callable[[], None] = _nobody
        """Has a thread look that waits without the loop."""

    @property
    def waiting(self) -> bool:
        """Whether a call is under way."""
        return bool(self._waits)

    def call(self, *, wakes: bool = False, gently: Callable[[], None] | None = None) -> Wait:
        """Around a call that waits: raises Closed from it when the client is closed, WakeUp if it ``wakes``."""
        return Wait(self, wakes=wakes, gently=gently)

    def at_once(self, begin: AtOnce, heard: Heard) -> GiveUp | None:
        """As ``begin``, for a call that ``close`` ends; what is left of it may be ended, too."""
        return WaitInNoTask(self, heard).begin(begin)

    def wakeup(self) -> None:
        """End a call that waits, or else the next one. From any thread, and from a signal's handler."""
        self.pending = True
        self.ring()
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended, and every call with it
                loop.call_soon_threadsafe(self._wake)

    async def end(self, error: Closed) -> None:
        """End all calls but the one this is done in; returns when they are over."""
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
        """A call begins to wait. Raises WakeUp if that was wanted before."""
        self._loop = asyncio.get_running_loop()
        if self.pending and wait.wakes:
            self.pending = False
            raise _woken()
        self._waits.add(wait)

    def leave(self, wait: Wait | WaitInNoTask) -> None:
        """It does not wait any more."""
        self._waits.discard(wait)
        if self._left is not None:
            self._left.set()

    def heard(self, wakeup: _Wakeup, *, by_this: bool) -> None:
        """One that was woken is over; of a wakeup that none of them heard of, the next call hears."""
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


# Patience: how long one close may take, which another close of the same client can shorten and never lengthens.
_FAREWELL_S: Final = 3.0


async def hang_up(client: LogClient) -> None:
    """Close it; servers that are told, and do not answer, are waited for no longer than a moment."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            await client.close()


class CloseDeadline:
    """Of a close that has begun; made in its loop."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.seconds = seconds
        self.deadline = self._loop.time() + seconds
        self._limit: asyncio.Timeout | None = None
        self._over = asyncio.Event()

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """A block that ends by TimeoutError when the time is over; not inside another one."""
        async with asyncio.timeout_at(self.deadline) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    async def hurry(self, seconds: float | None, *, wait: bool = True) -> None:
        """Another close came, and has so much time; returns when the one under way is through."""
        if seconds is not None and (deadline := self._loop.time() + seconds) < self.deadline:
            self.deadline, self.seconds = deadline, seconds
            if self._limit is not None and not self._limit.expired():
                self._limit.reschedule(deadline)
        if wait:
            await self._over.wait()

    def __enter__(self) -> Self:
        """Around all of the close."""
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()


# How a client ended: what was left undone, and how that is told without taking an exception's place.
@dataclass(frozen=True, slots=True)
class Ending:
    """What a producer did not deliver, in records by topic; ``error`` is an earlier one that nobody has looked at."""

    lost: Counter[str]
    error: PenstockError | None

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} {count:,}" for topic, count in sorted(self.lost.items()))
        plural = "records were" if self.lost.total() > 1 else "record was"
        return f"{self.lost.total():,} {plural} not acknowledged when the producer was closed ({topics})"

    def tell(self, log: ClientLog) -> None:
        """A line about what was lost, if anything."""
        if self.lost:
            log.warning("%s", self)

    def complain(self, *, of_lost: bool) -> None:
        """Raise the error nobody has looked at; else Closed if something was lost."""
        if self.error is not None:
            raise self.error
        if self.lost and of_lost:
            raise Closed(str(self), hint="They may be stored all the same; close_timeout_ms says how long to try")

    def tell_beside(self, error: BaseException) -> None:
        """Add a note to an exception that goes on."""
        if self.error is not None:
            tell_beside(error, f"an earlier delivery failed: {self.error}")
        if self.lost:
            tell_beside(error, f"{self}; close_on_error_timeout_ms says how long to try")


def tell_beside(error: BaseException, what: str) -> None:
    """Say something beside an exception, which goes on as what it is."""
    error.add_note(f"penstock: {what}")


def on_error_s(config: ClientConfig) -> float:
    """How long an end may take that an exception has caused."""
    return config.close_on_error_timeout_ms / 1_000


def undelivered(outcomes: Iterable[BatchFuture]) -> Counter[str]:
    """Records by topic that were not stored, as far as is known, of outcomes that are settled."""
    lost: Counter[str] = Counter()
    for outcome in outcomes:
        fates = [fate for run in outcome.runs or () for fate in run.fates]
        if outcome.error is not None:
            lost[outcome.topic] += outcome.rows - sum(fate.rows for fate in fates if fate.error is None)
        else:
            lost[outcome.topic] += sum(fate.rows for fate in fates if fate.error is not None)
    return +lost


def error_of(unseen: BatchFuture | None) -> PenstockError | None:
    """The error of a delivery that nobody has looked at."""
    return None if unseen is None or unseen.seen else unseen.first_error()
