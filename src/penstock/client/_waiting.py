"""Waiting in a thread, in slices: a signal that comes just before a wait, or to another thread, does not end the wait,
and its handler runs only between two of them.

Once the interpreter ends, no thread runs the loop of synchronous clients (`_loop_thread`): who waits runs it meanwhile.

What must not live here: what is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from penstock import _clock

__all__ = ["LONGEST_S", "Ended", "ended", "next_of"]

T = TypeVar("T")

LONGEST_S: Final = 1.0
"""A slice: for so long a handler may have to wait."""


_TURN_S: Final = 0.01


class Ended:
    """What the interpreter's end changes for threads that wait."""

    def __init__(self) -> None:
        self.run_loop: Callable[[float], None] | None = None
        """Runs the loop for so many seconds; None as long as a thread of its own does."""


ended: Final = Ended()


def next_of(queue: SimpleQueue[T], until: float | None = None) -> T:
    """The queue's next thing. Raises Empty if there is none by ``until``, of ``_clock.monotonic``."""
    while True:
        left = LONGEST_S if until is None else min(LONGEST_S, max(0.0, until - _clock.monotonic()))
        try:
            if ended.run_loop is not None:
                ended.run_loop(min(left, _TURN_S))
                return queue.get_nowait()
            return queue.get(timeout=left)
        except Empty:
            if until is not None and _clock.monotonic() >= until:
                raise
