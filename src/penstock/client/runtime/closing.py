"""How calls and clients end: interrupts by ``close`` and ``wakeup``, the deadline of a close, reports of lost records.

Interrupts holds the waiting calls of a client on a loop, BlockingCalls those over blocking sockets. Neither takes a
lock, because a signal handler that closes may have interrupted that very call. The closer first sets ``closed`` and
then looks for calls. A call first registers itself and then checks ``closed``. So at least one of them notices the
other, and the last one to leave closes the connections.

Also here: the base class of all public clients, and the checks for forks, foreign loops and gevent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias, TypeVar

from msgspec import Struct

from penstock.client.errors import WakeUp
from penstock.config import ClientConfig
from penstock.errors import Closed, PenstockError, UsageError
from penstock.interfaces import LogClient
from penstock.net.blocking_channel import run
from penstock.net.connecting import Stop

if TYPE_CHECKING:
    from penstock.config import Address

__all__ = [
    "AtOnce",
    "BlockingCalls",
    "CloseDeadline",
    "GiveUp",
    "Handle",
    "Heard",
    "Interrupts",
    "Rest",
    "Wait",
    "add_note",
    "check_fork",
    "check_loop",
    "check_threads",
    "closed_meanwhile",
    "hang_up",
    "on_error_s",
    "shown_address",
]

# The base of every public client: a short ``repr``, and an error where the client cannot be used.
_PATCHED: Final = ("threading", "select")
_UNPATCHED: Final = "monkey.patch_all(thread=False, select=False, socket=False, queue=False) leaves it what it needs"


class Handle:
    """Base of the public clients."""

    def _described(self) -> str:
        """Address, group and state."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<penstock.{type(self).__name__} {self._described()}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        kind = type(self).__name__
        raise UsageError(
            f"{kind} cannot be pickled or copied: it has connections",
            hint=f"Send address and options, and make one where it is used: {kind}(address, ...)",
        )


def shown_address(address: Address) -> str:
    """Servers and topics, without options, which may be secrets."""
    return str(type(address)(address.scheme, address.endpoints, address.topics))


def closed_meanwhile(what: str) -> Closed:
    """The error of a call that a close from another thread, task or handler has ended."""
    return Closed(f"the {what} was closed while this waited", hint="The request may have been carried out nevertheless")


def check_loop(loop: asyncio.AbstractEventLoop, kind: str, pid: int) -> None:
    """Raise UsageError on another event loop, or in another process, than the client's."""
    check_fork(pid)
    if asyncio.get_running_loop() is not loop:
        raise UsageError(
            f"this {kind} belongs to another event loop",
            hint=f"Make one {kind} per loop, inside the loop: each asyncio.run() has a loop of its own",
        )


def check_fork(pid: int) -> None:
    """Raise UsageError in the child of a fork: its connections are the parent's."""
    if pid != os.getpid():
        raise UsageError("this object was made before a fork", hint="Make a new one in the child process")


def check_threads() -> None:
    """Raise UsageError where gevent has patched the modules that a thread with an event loop needs."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, _PATCHED)):
        raise UsageError("gevent has patched threads or select: penstock's event loop cannot run", hint=_UNPATCHED)


T = TypeVar("T")


class BlockingCalls:
    """The calls of one client; ``what`` is the client's name in errors.

    ``hang_up`` closes the client's connections, which share `stop`.
    """

    def __init__(self, what: str, hang_up: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.stop = Stop()
        self.closed = False
        self._what = what
        self._pid = os.getpid()
        self._under_way: list[None] = []
        self._last = [hang_up]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. Raises its errors, Closed, and UsageError in the child of a fork."""
        try:
            self.check()
            check_fork(self._pid)
        except BaseException:
            work.close()
            raise
        self._under_way.append(None)
        try:
            if self.closed:
                work.close()
            self.check()
            result = run(work)
        except Exception:
            if self.stop.said:
                raise closed_meanwhile(self._what) from None
            raise
        finally:
            self._under_way.pop()
            if self.closed:
                self._hang_up()
        if self.stop.said:  # the call may have returned what it had at that point
            raise closed_meanwhile(self._what)
        return result

    def close(self) -> None:
        """Close the connections, or make the call under way end at once and close them.

        A second close ends a first one that takes long.
        """
        self.closed = True
        if not self._under_way:
            self._hang_up()
        elif self._pid == os.getpid():  # in a forked child the connections are the parent's
            self.stop.say()

    def check(self) -> None:
        """Raise Closed if it is closed."""
        if self.closed:
            raise Closed(f"the {self._what} is closed")

    def _hang_up(self) -> None:
        """Once, by the last one to leave."""
        if self._under_way:
            return
        try:
            hang_up = self._last.pop()
        except IndexError:
            return
        self._under_way.append(None)
        try:
            run(hang_up())
        except Closed:
            if not self.stop.said:
                raise
        finally:
            self._under_way.pop()


# How calls and clients end: interrupts by ``close`` and ``wakeup``, the deadline of a close, reports of lost records.
#
# Interrupts holds the waiting calls of a client. It takes no lock, because a signal handler, which may run at any
# point, may call both methods.
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
        self._give_up: Callable[[], None] = _do_nothing

    def begin(self, at_once: AtOnce) -> GiveUp | None:
        """The function that gives the call up, if it has begun. Raises the errors of ``at_once``."""
        give_up = at_once(self._settled)
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

    def _settled(self, rest: Rest | None) -> None:
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
        self.notify: Callable[[], None] = _do_nothing
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
        self.notify()
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


def _do_nothing() -> None:
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

    async def shorten(self, seconds: float | None, *, wait: bool = True) -> None:
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


def add_note(error: BaseException, what: str) -> None:
    """Add a note to an exception, which continues unchanged."""
    error.add_note(f"penstock: {what}")


def on_error_s(config: ClientConfig) -> float:
    """How long a close that follows an exception may take."""
    return config.close_on_error_timeout_ms / 1_000
