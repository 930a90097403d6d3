"""What all connections of a node hold together, in bytes: requests on their way in or being served, answers unread.

So does what a front inflates for one of them.

A connection that holds little is never in the way and never waits. When the rest together hold more than the budget,
their sockets are not read until there is room, and those that have neither sent nor read on for a second are hung up
on, the most patient first: nobody is kept waiting by clients that claim, send a byte now and then, or never read. What
must not live here: sockets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from penstock.net._copying import Copying

__all__ = ["LITTLE", "Budget", "Holder"]

_log = logging.getLogger("penstock.node")

LITTLE: Final = 64 * 1024
"""What a connection may hold without being counted; so many bytes are also what a small request needs."""

_STALLED_S: Final = 1.0
_LOOK_S: Final = 0.1


class Holder(Protocol):
    """A connection as the budget sees it."""

    progressed: float
    """When it last finished a request, or received or sent more than a little, on the node's clock (`ServingClock`)."""

    def weigh(self) -> None:
        """Tell the budget anew what is held."""
        ...

    def budget_changed(self) -> None:
        """The budget is exhausted, or is not any more."""
        ...

    def cut_off(self) -> None:
        """Give back what is held, now."""
        ...


class Budget:
    """One a node, for all its listeners."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: dict[Holder, int] = {}
        self._used = 0
        self._exhausted = False
        self._look: asyncio.TimerHandle | None = None
        self._hung_up = 0
        self.turn = Copying()
        self.now: Callable[[], float] | None = None
        """The clock of `Holder.progressed`; set by the first listener, since a budget is made before its loop runs."""

    @property
    def free(self) -> int:
        """Bytes that are left; never below 0."""
        return max(0, self.limit - self._used)

    @property
    def used(self) -> int:
        """Bytes that are held by connections that hold more than a little."""
        return self._used

    @property
    def exhausted(self) -> bool:
        """Whether connections that hold more than a little have to wait."""
        return self._exhausted

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """While it is entered, so much is taken by nobody that could be hung up on."""
        self.keep(size)
        try:
            yield
        finally:
            self.keep(-size)

    def keep(self, change: int) -> None:
        """So much more is taken by nobody that could be hung up on, or less if it is below 0."""
        self._used += change
        if self._exhausted or self._used >= self.limit:
            self._judge()

    def hold(self, holder: Holder, size: int) -> None:
        """``holder`` holds ``size`` bytes now, instead of what it held before."""
        before = self._held.get(holder, 0)
        if size <= LITTLE:
            if not before:
                return
            del self._held[holder]
            size = 0
        else:
            self._held[holder] = size
        self._used += size - before
        self._judge()

    def _judge(self) -> None:
        exhausted = self._used >= (self.limit if not self._exhausted else self.limit * 7 // 8)
        if exhausted == self._exhausted:
            return
        self._exhausted = exhausted
        if exhausted:
            self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._hang_up_stalled)
        elif self._look is not None:
            self._look.cancel()
            self._tell()
        for holder in list(self._held):
            holder.budget_changed()

    def _hang_up_stalled(self) -> None:
        """Make room; those that get on with it are left alone."""
        loop = asyncio.get_running_loop()
        for holder in list(self._held):
            holder.weigh()
        now = self.now() if self.now is not None else loop.time()
        for holder in sorted(self._held, key=lambda each: each.progressed):
            if not self._exhausted or now - holder.progressed < _STALLED_S:
                break
            self._hung_up += 1
            holder.cut_off()
            self.hold(holder, 0)
        if self._exhausted:
            self._look = loop.call_later(_LOOK_S, self._hang_up_stalled)

    def _tell(self) -> None:
        if self._hung_up:
            _log.warning(
                "requests and unread answers took all of %d bytes (memory_bytes); "
                "hung up on %d clients that neither sent nor read on",
                self.limit,
                self._hung_up,
            )
            self._hung_up = 0
