"""Calls of a client over blocking sockets, and how closing the client ends the call that waits.

Nothing here takes a lock: a signal handler that closes may have interrupted that very call. The closer first sets
``closed`` and then looks for calls. A call first registers itself and then checks ``closed``. So at least one of them
notices the other, and the last one to leave closes the connections.

Also here: the base class of all public clients, and the checks for forks, foreign loops and gevent.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from penstock.errors import Closed, UsageError
from penstock.net.blocking_channel import run
from penstock.net.connecting import Stop

if TYPE_CHECKING:
    from penstock.config import Address

__all__ = ["BlockingCalls", "Handle", "check_fork", "check_loop", "check_threads", "closed_meanwhile", "shown_address"]

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
    return Closed(f"the {what} was closed while this waited", hint="What was asked for may have happened all the same")


def check_loop(loop: asyncio.AbstractEventLoop, kind: str, pid: int) -> None:
    """Raise UsageError on another event loop, or in another process, than the client's."""
    check_fork(pid)
    if asyncio.get_running_loop() is not loop:
        raise UsageError(
            f"this {kind} belongs to another event loop",
            hint=f"Make one {kind} a loop, inside it: each asyncio.run() makes a loop of its own",
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
