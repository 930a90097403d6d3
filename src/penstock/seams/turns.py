"""How much all clients of a node do in one turn of its event loop, so that a small request waits for few of them.

What must not live here: what is done, and in which unit it is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["Turn"]


class Turn:
    """``most`` is done in each turn of the loop, or little more; who comes when that is used up waits for a later one.

    ``soon`` calls back in the next turn.
    """

    def __init__(self, most: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self._most = self._left = most
        self._soon = soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._ends = False

    @property
    def over(self) -> bool:
        """Whether this one is used up."""
        return self._left <= 0

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits for a later one."""
        return bool(self._waiting)

    def spend(self, count: int) -> None:
        """So much is done in this turn."""
        self._left -= count
        self._end_soon()

    def wait(self, callback: Callable[[], None]) -> None:
        """Call it in the next turn that has something left, after all who came before; there it spends what it does."""
        self._waiting.append(callback)
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            self._soon(self._begin)

    def _begin(self) -> None:
        self._ends = False
        self._left = self._most
        while self._waiting and not self.over:
            self._waiting.popleft()()
        if self._waiting:
            self._end_soon()
