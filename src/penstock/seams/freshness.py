"""Freshness: which topics a client must ask for again before it goes by what it knows of them.

What stays with a protocol: whom to ask and how, what an answer leaves out, and which partition's leader is not believed
any more (Kafka's epochs decide that with the answers, TubeMQ's masters tell it unasked with heartbeats). Two that ask
for one topic at the same moment both ask: a Channel has nothing to wait on but answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from penstock.seams.channel import Channel

__all__ = ["Freshness"]

_NEVER = float("-inf")


class Freshness:
    """Of one client's topics, by name. What was told is gone by for ``max_age_ms``, on the channel's clock."""

    def __init__(self, channel: Channel[Any], max_age_ms: int) -> None:
        self._channel = channel
        self._max_age_s = max_age_ms / 1_000
        self._until: dict[str, float] = {}
        self._all_until = _NEVER

    def due(self, names: Collection[str]) -> set[str]:
        """Those of ``names`` that nobody told of, or too long ago, or that are in doubt."""
        now = self._channel.monotonic()
        return {name for name in names if now >= self._until.get(name, self._all_until)}

    def all_due(self) -> bool:
        """Whether the list of all topics is too old, if there is one."""
        return self._channel.monotonic() >= self._all_until

    def told(self, names: Iterable[str]) -> None:
        """An answer told of these just now."""
        self._until.update(dict.fromkeys(names, self._channel.monotonic() + self._max_age_s))

    def told_all(self) -> None:
        """An answer listed all topics just now: those that it leaves out are known not to be there."""
        self._all_until = self._channel.monotonic() + self._max_age_s

    def doubt(self, name: str) -> None:
        """What is known of it proved wrong."""
        self._until[name] = _NEVER

    def forget(self, name: str) -> None:
        """It is not there: go by the list of all topics, if there is one."""
        self._until.pop(name, None)
