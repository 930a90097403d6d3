"""Waiting for news: one held pull for each place that somebody waits at, whoever and however many they are.

A broker cannot be told to forget a pull, so one that nobody waits for any more stays until it is answered, for the next
one who waits at the same place. What must not live here: reading what has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq.enode.reading import Reading
from penstock.protocols.rocketmq.enode.topics import Topics
from penstock.seams.runtime import Promise, Runtime

__all__ = ["Arrivals"]

_HELD_MS: Final = 15_000
_PAUSE_S: Final = 0.1

_Place = tuple[Partition, int]


class Arrivals:
    """One an enode."""

    def __init__(self, reading: Reading, topics: Topics, runtime: Runtime) -> None:
        self._reading = reading
        self._topics = topics
        self._runtime = runtime
        self._waiting: dict[_Place, set[Promise[None]]] = {}
        self._places: dict[Promise[None], list[_Place]] = {}
        self._held: set[_Place] = set()

    def wait(self, known: Mapping[Partition, int]) -> Promise[None]:
        """``penstock.seams.enode.Enode.arrival``."""
        promise: Promise[None] = self._runtime.promise()
        self._places[promise] = list(known.items())
        for place in known.items():
            self._waiting.setdefault(place, set()).add(promise)
            if place not in self._held:
                self._held.add(place)
                self._runtime.spawn(self._hold(place), f"wait for messages of {place[0]}")
        return promise

    def forget(self, promise: Promise[None]) -> None:
        """Nobody waits for it any more."""
        for place in self._places.pop(promise, ()):
            waiting = self._waiting.get(place)
            if waiting is not None:
                waiting.discard(promise)
                if not waiting:
                    del self._waiting[place]

    async def _hold(self, place: _Place) -> None:
        """Until something has come, or nobody waits there any more."""
        partition, end = place
        try:
            while place in self._waiting:
                try:
                    home = await self._topics.home(partition)
                    got = await self._reading.pull(home, max(end, 0), count=1, held_ms=_HELD_MS)
                except PenstockError:
                    await self._runtime.sleep(_PAUSE_S)
                    if await self._gone(partition):
                        break
                    continue
                if got.end > end or got.next_offset > end or got.first > end:
                    break
                if got.end < end:
                    await self._runtime.sleep(_PAUSE_S)  # acknowledged, and not shown yet
        finally:
            self._held.discard(place)
            for promise in list(self._waiting.get(place, ())):
                self.forget(promise)
                promise.set(None)

    async def _gone(self, partition: Partition) -> bool:
        """Whether there is no such partition any more."""
        try:
            topic = await self._topics.topic(partition.topic)
        except PenstockError:
            return False
        return topic is None or partition.id >= topic.partitions
