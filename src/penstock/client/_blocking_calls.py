"""The calls of a client over blocking sockets, and how closing it ends the one that waits.

Nothing here takes a lock: a signal's handler that closes may have interrupted the very call. Whoever closes says so
first and looks for calls then; a call says that it is there first and looks for a close then. So one of them hears of
the other, and the last one hangs up: the closer, or the call it has ended. What must not live here: what is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.client._handle import check_fork, closed_meanwhile
from penstock.errors import Closed
from penstock.net.blocking_channel import run
from penstock.net.stopping import Stop

__all__ = ["BlockingCalls"]

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
