"""Where a connection's handlers wait: for promises that come early when nobody is there to be answered.

What must not live here: what is waited for.
"""

from __future__ import annotations

from penstock.seams.runtime import Promise

__all__ = ["Parking"]


class Parking:
    """One connection's. ``over``: it has ended, or the node stops."""

    __slots__ = ("_parked", "over")

    def __init__(self) -> None:
        self.over = False
        self._parked: set[Promise[None]] = set()

    @property
    def held(self) -> int:
        """How many handlers wait here."""
        return len(self._parked)

    async def park(self, promise: Promise[None]) -> None:
        """Wait for ``promise``, which is set early if the connection ends or the node stops (``over``)."""
        if self.over:
            promise.set(None)
        self._parked.add(promise)
        try:
            await promise
        finally:
            self._parked.discard(promise)

    def release(self) -> None:
        """Nothing is worth waiting for any more."""
        self.over = True
        for promise in list(self._parked):
            promise.set(None)
