"""News: something has changed that polls wait for. Told on the loop, waited for there or in the thread that polls.

What must not live here: what has changed.
"""

from __future__ import annotations

import asyncio
from queue import Empty, SimpleQueue
from typing import Protocol

from penstock.client._alarm import Alarm
from penstock.client._waiting import LONGEST_S

__all__ = ["News", "Rung"]


class Rung(Protocol):
    """What is rung by ``put``."""

    def put(self, what: None, /) -> None: ...


class News:
    """Made inside the loop. ``set`` holds until ``clear``, as an Event's.

    One timer serves all that wait until some time: it may ring for nothing, but most polls start and stop none.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []
        self._alarm = Alarm(self._loop, self._wake)
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
