"""What members of groups take in memory, which their clients leave behind when they go: counted, and limited.

Source: Kafka limits the members of a group (``group.max.size``), and what they bring by the heap alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

__all__ = ["MEMBER_BYTES", "HeldByMembers"]

MEMBER_BYTES = 2_000
"""What a member takes that brings nothing, or an id that was given to one that has not joined yet, with its group."""


def _nothing(change: int) -> None:
    del change


class HeldByMembers:
    """Bytes that members of all groups hold: ``most`` together, half of that from one address.

    ``keep`` is called with each change.
    """

    def __init__(self, most: int = 1 << 62, keep: Callable[[int], None] = _nothing) -> None:
        self._most = most
        self._keep = keep
        self._by_host: Counter[str] = Counter()
        self._known: dict[Hashable, tuple[str, int]] = {}
        self.total = 0

    def from_host(self, host: str) -> int:
        """Bytes that members at this address hold."""
        return self._by_host[host]

    def refusal(self, member: Hashable, host: str, size: int) -> str:
        """Why ``member`` may not hold ``size`` bytes; "" where it may. To hold less than before is always allowed."""
        before_host, before = self._known.get(member, (host, 0))
        if size <= before:
            return ""
        grown = size - before
        here = self._by_host[host] + (grown if before_host == host else size)
        if self.total + grown > self._most:
            return (
                f"members of all groups may hold {self._most} bytes, and hold {self.total}: {grown} more are too many"
            )
        if here > self._most // 2:
            return f"members at {host} may hold {self._most // 2} bytes: {here} are too many"
        return ""

    def set(self, member: Hashable, host: str, size: int) -> None:
        """``member`` holds so much now; 0: it is gone."""
        before_host, before = self._known.pop(member, ("", 0))
        if before:
            self._change(before_host, -before)
        if size:
            self._known[member] = (host, size)
            self._change(host, size)
        if size != before:
            self._keep(size - before)

    def _change(self, host: str, change: int) -> None:
        self.total += change
        self._by_host[host] += change
        if not self._by_host[host]:
            del self._by_host[host]
