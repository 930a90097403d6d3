"""Locks: by name, for coroutines that check and then act; and one that two threads try and neither waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from penstock.concurrency.runtime import Promise

__all__ = ["LOOP", "READER", "Locks", "TryLock"]

K = TypeVar("K", bound=Hashable)
_NOBODY: Final[deque[Promise[None]]] = deque()


class Locks(Generic[K]):
    """One lock a name, first come, first served. Where nobody waits it costs no promise, and nothing stays of it.

    >>> async with locks.held("topic"):    # doctest: +SKIP
    ...     topic = await enode.topic("topic")
    """

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._lines: dict[K, deque[Promise[None]]] = {}

    def held(self, name: K) -> _Held[K]:
        """To be entered with ``async with``; the place in the line is taken there, before anything is waited for."""
        return _Held(self, name)

    async def take(self, name: K) -> None:
        """Return when everybody who came before has left."""
        line = self._lines.get(name)
        if line is None:
            self._lines[name] = _NOBODY
            return
        if line is _NOBODY:
            line = self._lines[name] = deque()
        mine: Promise[None] = self._new_promise()
        line.append(mine)
        try:
            await mine
        except BaseException:
            if mine.done:
                self.leave(name)
            else:
                line.remove(mine)
            raise

    def take_free(self, name: K) -> bool:
        """Take it if nobody holds it; else False."""
        if name in self._lines:
            return False
        self._lines[name] = _NOBODY
        return True

    def free(self, name: K) -> bool:
        """Whether nobody holds it, so that `take` would wait for nothing."""
        return name not in self._lines

    def leave(self, name: K) -> None:
        """The next one goes on."""
        line = self._lines[name]
        if line:
            line.popleft().set(None)
        else:
            del self._lines[name]

    def __len__(self) -> int:
        return len(self._lines)


class _Held(Generic[K]):
    __slots__ = ("_locks", "_name")

    def __init__(self, locks: Locks[K], name: K) -> None:
        self._locks = locks
        self._name = name

    async def __aenter__(self) -> None:
        await self._locks.take(self._name)

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self._locks.leave(self._name)


# Hold: which of two threads may touch something, where neither ever waits for the other.
#
# A lock would not do: a signal's handler that comes while a thread has it may wait for the other thread, which would
# wait for the lock. Whoever does not get a hold leaves the thing alone, and goes another way.
LOOP: Final = "the loop"
READER: Final = "the thread that reads"


class TryLock:
    """Free at first. Taken and left by name, so that nobody who was interrupted in between needs to know how far."""

    __slots__ = ("_by",)

    def __init__(self) -> None:
        self._by: dict[None, str] = {}

    def take(self, who: str) -> bool:
        """Whether it is ``who``'s now, or was already."""
        return self._by.setdefault(None, who) == who  # one step of the interpreter

    def leave(self, who: str) -> None:
        """It is free, unless somebody else has it."""
        if self._by.get(None) == who:
            self._by.pop(None, None)
