"""Routing: who serves a partition as far as a client was told, whom it does not believe any more, when it asks again.

An error that says, or may mean, that somebody else has a partition is no reason to ask at once: the partition has no
leader until its topic was asked for again, which whoever needs it next does. What stays with a protocol: whom to ask
and how, what an answer leaves out, and which errors are a reason to doubt. Two that ask for one topic at the same
moment both ask: a Channel has nothing to wait on but answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from penstock.model import Node, Partition
from penstock.seams.channel import Channel

__all__ = ["Routing"]

_NEVER = float("-inf")


class Routing:
    """Of one client's topics, by name. What was told is gone by for ``max_age_ms``, on the channel's clock.

    ``told_of`` is who serves a partition by the last answer that told of it, None where none did.
    """

    def __init__(self, channel: Channel[Any], max_age_ms: int, told_of: Callable[[Partition], Node | None]) -> None:
        self._channel = channel
        self._max_age_s = max_age_ms / 1_000
        self._told_of = told_of
        self._until: dict[str, float] = {}
        self._all_until = _NEVER
        self._distrusted: dict[str, set[Partition]] = {}

    # Who serves a partition.

    def leader(self, partition: Partition) -> Node | None:
        """As far as is known; None after ``distrust`` until an answer told of its topic."""
        return None if partition in self._distrusted.get(partition.topic, ()) else self._told_of(partition)

    async def find(self, partition: Partition, ask: Callable[[Collection[str]], Awaitable[object]]) -> Node | None:
        """The same, with the topic asked for if that is None; None where the answer does not tell, either."""
        node = self.leader(partition)
        if node is None:
            await ask({partition.topic})
            node = self.leader(partition)
        return node

    def distrust(self, partition: Partition) -> None:
        """Its leader is not who we thought: its topic is due."""
        self._distrusted.setdefault(partition.topic, set()).add(partition)
        self._until[partition.topic] = _NEVER

    def believe(self, partition: Partition) -> None:
        """Somebody said who leads it, and is right: its topic is no more due for that."""
        self._distrusted.get(partition.topic, set()).discard(partition)

    # When to ask.

    def due(self, names: Collection[str]) -> set[str]:
        """Those of ``names`` that nobody told of, or too long ago, or that are in doubt."""
        now = self._channel.monotonic()
        return {name for name in names if now >= self._until.get(name, self._all_until)}

    def all_due(self) -> bool:
        """Whether the list of all topics is too old, if there is one."""
        return self._channel.monotonic() >= self._all_until

    # What was told.

    def told(self, names: Iterable[str]) -> None:
        """An answer to a question told of these just now."""
        until = self._channel.monotonic() + self._max_age_s
        for name in names:
            self._until[name] = until
            self._distrusted.pop(name, None)

    def told_all(self) -> None:
        """An answer listed all topics just now: those that it leaves out are known not to be there."""
        self._all_until = self._channel.monotonic() + self._max_age_s

    def told_unasked(self, name: str) -> None:
        """Somebody told of its partitions, whether they are there or not; who asks for it asks all the same."""
        self._distrusted.pop(name, None)

    def forget(self, name: str) -> None:
        """It is not there: go by the list of all topics, if there is one."""
        self._until.pop(name, None)
        self._distrusted.pop(name, None)
