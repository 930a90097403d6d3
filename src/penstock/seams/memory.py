"""Memory: what all connections of a node may hold together, as fronts see it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Protocol

from penstock.seams.runtime import Promise

__all__ = ["UNLIMITED", "Hold", "Memory", "Portion"]


class Memory(Protocol):
    """What all connections of a node may hold together."""

    @property
    def limit(self) -> int:
        """Bytes in all."""
        ...

    @property
    def free(self) -> int:
        """Bytes that are left, 0 at least. An answer takes a part of it, so that there is some for the next one."""
        ...

    def reserved(self, size: int) -> AbstractContextManager[None]:
        """While it is entered, work on somebody's behalf takes ``size`` bytes, whether or not they are left."""
        ...

    def keep(self, change: int) -> None:
        """State that the node keeps for its clients has grown by ``change`` bytes, or shrunk if that is below 0."""
        ...


class _Unlimited:
    limit = free = 1 << 62

    def reserved(self, size: int) -> AbstractContextManager[None]:
        del size
        return nullcontext()

    def keep(self, change: int) -> None:
        del change


UNLIMITED: Final = _Unlimited()


class Hold:
    """Bytes that one piece of work has of a `Portion`."""

    __slots__ = ("_portion", "size")

    def __init__(self, portion: Portion, size: int) -> None:
        self._portion = portion
        self.size = size

    def change(self, size: int) -> None:
        """It has so much from now on. To grow needs no wait, because the work is amid something."""
        before, self.size = self.size, size
        self._portion.changed(size - before)


class Portion:
    """The part of a node's memory that one kind of work may take together; more work waits, in the order it came."""

    def __init__(self, memory: Memory, most: int, promise: Callable[[], Promise[Any]]) -> None:
        self._memory = memory
        self._most = most
        self._promise = promise
        self._used = 0
        self._waiting: deque[tuple[int, Promise[None]]] = deque()

    @property
    def used(self) -> int:
        """Bytes that are taken now."""
        return self._used

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[Hold]:
        """Entered when ``size`` bytes are left, or all of them where it asks for more than there are."""
        size = min(size, self._most)
        if self._waiting or self._used + size > self._most:
            mine = self._promise()
            self._waiting.append((size, mine))
            try:
                await mine
            except BaseException:
                if mine.done:
                    self.changed(-size)
                else:
                    self._waiting.remove((size, mine))
                raise
        else:
            self.changed(size)
        hold = Hold(self, size)
        try:
            yield hold
        finally:
            hold.change(0)

    def changed(self, change: int) -> None:
        """So many bytes more are taken, or fewer if that is below 0."""
        self._used += change
        self._memory.keep(change)
        while self._waiting and self._used + self._waiting[0][0] <= self._most:
            size, mine = self._waiting.popleft()
            self._used += size
            self._memory.keep(size)
            mine.set(None)
