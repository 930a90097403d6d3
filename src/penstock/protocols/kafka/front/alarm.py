"""Alarm: has a coordinator, which has no clock of its own, called when its next deadline is there."""

from __future__ import annotations

from collections.abc import Callable

from penstock.seams.runtime import Runtime, Timer

__all__ = ["Alarm"]


class Alarm:
    """``due`` says when, in seconds of the monotonic clock (None: never); ``ring`` is called then, with nothing set.

    It may ring early: a deadline that moves away, as sessions do with each heartbeat, moves no timer.
    """

    def __init__(self, runtime: Runtime, due: Callable[[], float | None], ring: Callable[[], None]) -> None:
        self._runtime = runtime
        self._due_of = due
        self._ring = ring
        self._timer: Timer | None = None
        self._due: float | None = None

    def wake(self) -> None:
        """Look again when the next deadline is."""
        due = self._due_of()
        if self._timer is not None and self._due is not None and due is not None and self._due <= due:
            return
        self.stop()
        self._due = due
        if due is not None:
            self._timer = self._runtime.call_later(max(0.0, due - self._runtime.monotonic()), self._now)

    def stop(self) -> None:
        """Until it is woken again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._ring()
        self.wake()
