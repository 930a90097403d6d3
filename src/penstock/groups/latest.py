"""What of a log is the latest of each key, in whatever order one hears of it: the later position wins.

What must not live here: values.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Latest"]

K = TypeVar("K", bound=Hashable)


class Latest(Generic[K]):
    """Positions of keys. What was taken away is remembered until `quiet`, or an older one would bring it back.

    >>> order = Latest[str]()
    >>> order.takes("k", 5, gone=True), order.takes("k", 4, gone=False), order.takes("k", 6, gone=False)
    (True, False, True)
    """

    def __init__(self) -> None:
        self._positions: dict[K, int] = {}
        self._gone: set[K] = set()

    def takes(self, key: K, position: int, *, gone: bool) -> bool:
        """Whether what stands at ``position`` is the latest that is known of ``key``; ``gone``: it takes it away."""
        if position < self._positions.get(key, -1):
            return False
        self._positions[key] = position
        if gone:
            self._gone.add(key)
        else:
            self._gone.discard(key)
        return True

    def quiet(self) -> None:
        """Nothing older is on its way any more."""
        for key in self._gone:
            del self._positions[key]
        self._gone.clear()

    def __len__(self) -> int:
        return len(self._positions) - len(self._gone)
