"""ServingClock: the clock for deadlines of a node's clients. It stands still while the event loop cannot serve them.

A heartbeat that lies in a socket is not late: the node was, because one piece of work held its loop, the process was
stopped (SIGSTOP), or its machine was suspended. So such time counts for no session, transaction, request or lock. Real
brokers count it: after a long pause of their Java machine they expire members that were there all along.

Timestamps of records are wall clock time; nothing here has to do with those.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

__all__ = ["ServingClock"]

_log = logging.getLogger("penstock.node")

_TICK_S: Final = 0.25
_STEP_S: Final = 0.5
"""The most that passes between two ticks. A loop whose ticks are further apart was away; below that, it was busy."""
_CLOSE_S: Final = 0.002
"""Loops have clocks of a millisecond, so that a timer may come a little early."""
_WORTH_TELLING_S: Final = 3.0


class ServingClock:
    """Seconds that never go back; at most `_STEP_S` of them pass between two ticks of the loop.

    Between ticks it follows the loop's own clock. What a tick finds above the step is left out for good:

        loop's clock    0.0  0.25  0.5 [held for 20 s] 20.6  20.85
        this one        0.0  0.25  0.5                  1.0   1.25
    """

    __slots__ = ("_away", "_loop", "_most", "_now", "_ticker")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now = loop.time
        self._away = 0.0
        self._most = loop.time() + _STEP_S
        self._ticker = loop.call_later(_TICK_S, self._tick)

    @property
    def away_s(self) -> float:
        """Seconds that were left out so far."""
        return self._away

    def time(self) -> float:
        """Now, in seconds."""
        now = self._now()
        return (now if now < self._most else self._most) - self._away

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ServingTimer:
        """Call ``callback`` when this clock has gone on by ``delay_s`` seconds."""
        return ServingTimer(self, self._loop, delay_s, callback)

    def stop(self) -> None:
        """Nobody asks any more."""
        self._ticker.cancel()

    def _tick(self) -> None:
        now = self._now()
        away = now - self._most
        if away > 0:
            self._away += away
            if away >= _WORTH_TELLING_S:
                _log.warning(
                    "the node did not serve for %.1f s: it was held by one piece of work, stopped or suspended; "
                    "this time counts for no session or timeout of its clients",
                    away,
                )
        self._most = now + _STEP_S
        self._ticker = self._loop.call_later(_TICK_S, self._tick)


class ServingTimer:
    """Made by `ServingClock.call_later`."""

    __slots__ = ("_callback", "_clock", "_due", "_handle", "_loop")

    def __init__(
        self, clock: ServingClock, loop: asyncio.AbstractEventLoop, delay_s: float, callback: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._loop = loop
        self._callback = callback
        self._due = clock.time() + delay_s
        self._handle = loop.call_later(delay_s, self._ring)

    def cancel(self) -> None:
        """It is not called; nothing happens if it was already."""
        self._handle.cancel()

    def _ring(self) -> None:
        left_s = self._due - self._clock.time()
        if left_s > _CLOSE_S:
            # The loop was away meanwhile. What came for it is read from the sockets before this comes again.
            self._handle = self._loop.call_later(left_s, self._ring)
        else:
            self._callback()
