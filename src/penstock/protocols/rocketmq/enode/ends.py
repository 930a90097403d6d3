"""Where queues end, of those that were just written to: brokers acknowledge a message a moment before they show it.

What must not live here: asking.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from penstock.protocols.rocketmq.enode.topics import Home

__all__ = ["Ends"]

_COUNTS_S: Final = 5.0
"""For so long; a broker that has not shown a message by then has lost it."""
_MOST: Final = 100_000


class Ends:
    """By what brokers acknowledged here. ``monotonic`` tells seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: OrderedDict[Home, tuple[int, float]] = OrderedDict()

    def note(self, home: Home, end: int) -> None:
        """A message just below ``end`` was acknowledged."""
        known = self._known.pop(home, (0, 0.0))[0]
        self._known[home] = (max(known, end), self._monotonic())
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def of(self, home: Home) -> int:
        """The end that a queue has at least; 0 where nothing is known."""
        end, at_s = self._known.get(home, (0, 0.0))
        return end if self._monotonic() - at_s < _COUNTS_S else 0
