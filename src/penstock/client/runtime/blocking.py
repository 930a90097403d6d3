"""The calls of a client over blocking sockets, and how closing it ends the one that waits.

Nothing here takes a lock: a signal's handler that closes may have interrupted the very call. Whoever closes says so
first and looks for calls then; a call says that it is there first and looks for a close then. So one of them hears of
the other, and the last one hangs up: the closer, or the call it has ended.
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

# What every client has that users hold: a short ``repr``, and a sentence where it is taken somewhere it cannot live.
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
    """Servers and topics; options may be secrets."""
    return str(type(address)(address.scheme, address.endpoints, address.topics))


def closed_meanwhile(what: str) -> Closed:
    """What a call is ended with by a close from elsewhere."""
    return Closed(f"the {what} was closed while this waited", hint="What was asked for may have happened all the same")


def check_loop(loop: asyncio.AbstractEventLoop, kind: str, pid: int) -> None:
    """Raise UsageError if this is another event loop, or another process, than the one a client lives in."""
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
    """Raise UsageError where gevent has replaced what a thread with an event loop is made of."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, _PATCHED)):
        raise UsageError("gevent has patched threads or select: penstock's event loop cannot run", hint=_UNPATCHED)


T = TypeVar("T")


class BlockingCalls:
    """Of one client, ``what`` it is called; ``hang_up`` closes what its `stop` was given to."""

    def __init__(self, what: str, hang_up: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.stop = Stop()
        self.closed = False
        self._what = what
        self._pid = os.getpid()
        self._under_way: list[None] = []
        self._last = [hang_up]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or raises. Raises Closed; UsageError in the child of a fork."""
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
        if self.stop.said:  # it may have made do with what it had by then
            raise closed_meanwhile(self._what)
        return result

    def close(self) -> None:
        """Hang up, or have the call under way end at once and do it. A second one ends a first that takes its time."""
        self.closed = True
        if not self._under_way:
            self._hang_up()
        elif self._pid == os.getpid():  # in a forked child they are the parent's
            self.stop.say()

    def check(self) -> None:
        """Raise Closed if it is closed."""
        if self.closed:
            raise Closed(f"the {self._what} is closed")

    def _hang_up(self) -> None:
        """Once, by the last one out."""
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
