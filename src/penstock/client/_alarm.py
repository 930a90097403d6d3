"""Alarm: a timer that rings by the earliest of the times that it was set to, and is seldom stopped.

A loop is not asked when its timer rings: uvloop has no answer for one that rings at once. And a time that a timer was
set to need not be over when it rings: uvloop counts whole milliseconds and rounds, so that one may ring half of one
early (asyncio's do not). What must not live here: what is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Alarm", "ring_after"]

_ROUNDING_S: Final = 0.001


def ring_after(
    loop: asyncio.AbstractEventLoop, when: float, callback: Callable[..., object], *args: Any
) -> asyncio.Handle:
    """Call it once the loop's clock shows ``when``: for those who look at the clock again, and would not come back."""
    return loop.call_at(when + _ROUNDING_S, callback, *args)


class Alarm:
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
