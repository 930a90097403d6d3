"""Alarm: a timer that rings by the earliest of the times that it was set to, and is seldom stopped.

A loop is not asked when its timer rings: uvloop has no answer for one that rings at once. What must not live here: what
is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Alarm"]


class Alarm:
    """Calls ``ring`` on the loop. Times are the loop's."""

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
