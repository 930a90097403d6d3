"""Flow control: so many requests, and so many bytes of bodies, in a second, by request code and over all.

Each limit is a bucket. It holds what is allowed in one second, is filled at that rate, and a request takes out what it
costs. One that costs more than a whole bucket passes when the bucket is full, and those behind it wait until the debt
is paid; else it would never pass. What is refused takes nothing. The clock comes in as an argument.

As the first Snode's interceptors had it, and where these went wrong, not: ``overall`` was read and never asked, a body
below 1 KB cost nothing, and one above the limit was refused for ever. Source: the Snode of 2019,
``QPSFlowControlServiceImpl``, ``RequestSizeFlowControlServiceImpl``, ``AbstractFlowControlService``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocols.rocketmq.config.lists import OVERALL

__all__ = ["TOO_MANY", "TOO_MUCH", "Bucket", "Flow"]

TOO_MANY: Final = "[REJECT]exceed system flow control config QPS, start flow control for a while"
TOO_MUCH: Final = "[REJECT]exceed system flow control config request size, start flow control for a while"
"""The first Snode's words, which people look for in their logs."""

_HEARTBEAT: Final = 34
_KILO: Final = 1_024


class Bucket:
    """``rate`` is what is allowed in a second, and what the bucket holds. Times are seconds that never go back."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._left = rate
        self._at: float | None = None

    def has(self, cost: float, now: float) -> bool:
        """Whether there is enough, or all that there can be."""
        if self._at is not None:
            self._left = min(self.rate, self._left + (now - self._at) * self.rate)
        self._at = now
        return self._left >= min(cost, self.rate)

    def take(self, cost: float) -> None:
        """After `has` said so."""
        self._left -= cost


class Flow:
    """``requests`` and ``kilobytes`` are limits a second, by request code as text, and of ``overall``."""

    def __init__(self, requests: Mapping[str, int], kilobytes: Mapping[str, int]) -> None:
        self._requests = {name: Bucket(limit) for name, limit in requests.items()}
        self._bytes = {name: Bucket(limit * _KILO) for name, limit in kilobytes.items()}

    def refuses(self, code: int, size: int, now: float) -> str | None:
        """Why a request with a body of ``size`` bytes is too much now; None: it is counted. Heartbeats are not counted
        as requests: a client that is thrown out for its silence would only come back with more."""
        costs = [] if code == _HEARTBEAT else [(each, 1, TOO_MANY) for each in _of(self._requests, code)]
        if size:
            costs += [(each, size, TOO_MUCH) for each in _of(self._bytes, code)]
        for bucket, cost, words in costs:
            if not bucket.has(cost, now):
                return words
        for bucket, cost, _ in costs:
            bucket.take(cost)
        return None


def _of(buckets: Mapping[str, Bucket], code: int) -> list[Bucket]:
    if not buckets:
        return []
    return [buckets[name] for name in (str(code), OVERALL) if name in buckets]
