"""Arriving: who waits for records. TubeMQ holds no question, so partitions somebody waits for are looked at again.

The pause begins short and doubles up to ``not_found_wait_ms``, the protocol's own pause after "nothing there"; one look
serves all who wait. Nobody waits: nobody looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import PenstockError
from penstock.model import Partition

__all__ = ["Arriving"]

_FIRST_S: Final = 0.02


class Arriving:
    """``grows`` looks at a partition: whether there is more than before; it raises where that cannot be told."""

    def __init__(self, runtime: Runtime, grows: Callable[[Partition], Awaitable[bool]], longest_s: float) -> None:
        self._runtime = runtime
        self._grows = grows
        self._longest_s = max(longest_s, _FIRST_S)
        self._waiting: dict[Partition, set[Promise[None]]] = {}
        self._looking: set[Partition] = set()

    def wait(self, known: Mapping[Partition, int]) -> Promise[None]:
        """Set when one of them has more. Give it back to `forget`."""
        promise: Promise[None] = self._runtime.promise()
        for partition in known:
            self._waiting.setdefault(partition, set()).add(promise)
            if partition not in self._looking:
                self._looking.add(partition)
                self._runtime.spawn(self._look(partition), f"look for what arrives in {partition}")
        return promise

    def changed(self, partition: Partition) -> None:
        """Wake everybody who waits for it."""
        for promise in self._waiting.pop(partition, ()):
            promise.set(None)

    def forget(self, promise: Promise[None]) -> None:
        """Nobody waits for it any more."""
        for partition, waiting in list(self._waiting.items()):
            waiting.discard(promise)
            if not waiting:
                del self._waiting[partition]

    async def _look(self, partition: Partition) -> None:
        pause_s = _FIRST_S
        try:
            while partition in self._waiting:
                await self._runtime.sleep(pause_s)
                if partition in self._waiting and await self._has_news(partition):
                    self.changed(partition)
                pause_s = min(2 * pause_s, self._longest_s)
        finally:
            self._looking.discard(partition)

    async def _has_news(self, partition: Partition) -> bool:
        try:
            return await self._grows(partition)
        except PenstockError:
            return True  # who reads will hear what it is
