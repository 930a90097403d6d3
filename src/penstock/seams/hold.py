"""Hold: which of two threads may touch something, where neither ever waits for the other.

A lock would not do: a signal's handler that comes while a thread has it may wait for the other thread, which would wait
for the lock. Whoever does not get a hold leaves the thing alone, and goes another way.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LOOP", "READER", "Hold"]

LOOP: Final = "the loop"
READER: Final = "the thread that reads"


class Hold:
    """Free at first. Taken and left by name, so that nobody who was interrupted in between needs to know how far."""

    __slots__ = ("_by",)

    def __init__(self) -> None:
        self._by: dict[None, str] = {}

    def take(self, who: str) -> bool:
        """Whether it is ``who``'s now, or was already."""
        return self._by.setdefault(None, who) == who  # one step of the interpreter

    def leave(self, who: str) -> None:
        """It is free, unless somebody else has it."""
        if self._by.get(None) == who:
            self._by.pop(None, None)
