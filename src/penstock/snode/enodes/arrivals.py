"""Readers that wait for partitions to change: one promise each, set by the first change of any of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.model import Partition
from penstock.seams.runtime import Promise

__all__ = ["Arrivals"]


class Arrivals:
    """Cheap while nobody waits: an append then costs one lookup."""

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._waiting: dict[Partition, set[Promise[None]]] = {}
        self._partitions: dict[Promise[None], Collection[Partition]] = {}

    def wait(self, partitions: Collection[Partition]) -> Promise[None]:
        """A promise that is set when one of ``partitions`` changes. Give it back to `forget`."""
        promise: Promise[None] = self._new_promise()
        self._partitions[promise] = partitions
        for partition in partitions:
            self._waiting.setdefault(partition, set()).add(promise)
        return promise

    def changed(self, partition: Partition) -> None:
        """Wake all readers that wait for ``partition``."""
        if not self._waiting:
            return
        for promise in list(self._waiting.get(partition, ())):
            self.forget(promise)
            promise.set(None)

    def forget(self, promise: Promise[None]) -> None:
        """The reader no longer waits; does nothing if it was woken or is unknown."""
        for partition in self._partitions.pop(promise, ()):
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.discard(promise)
                if not waiting:
                    del self._waiting[partition]

    def __len__(self) -> int:
        return len(self._partitions)
