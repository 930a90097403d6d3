"""Waiting in a thread, in slices: a signal that comes just before a wait, or to another thread, does not end the wait,
and its handler runs only between two of them.

What must not live here: what is waited for.
"""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

__all__ = ["LONGEST_S", "next_of"]

T = TypeVar("T")

LONGEST_S: Final = 1.0
"""A slice: for so long a handler may have to wait."""


def next_of(queue: SimpleQueue[T], until: float | None = None) -> T:
    """The queue's next thing. Raises Empty if there is none by ``until``, of ``time.monotonic``."""
    while True:
        left = LONGEST_S if until is None else min(LONGEST_S, max(0.0, until - time.monotonic()))
        try:
            return queue.get(timeout=left)
        except Empty:
            if until is not None and time.monotonic() >= until:
                raise
