"""Two kinds of lock.

`Locks` are locks by name, for coroutines that check and then act. `TryLock` is for two threads that never wait for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from penstock.concurrency.runtime import Promise

__all__ = ["LOOP", "READER", "Locks", "TryLock"]

K = TypeVar("K", bound=Hashable)
_NO_WAITERS: Final[deque[Promise[None]]] = deque()


class Locks(Generic[K]):
    """One lock per name, first come, first served. A free lock costs no promise, and a released one leaves no entry.

    >>> async with locks.held("topic"):    # doctest: +SKIP
    ...     topic = await enode.topic("topic")
    """

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._lines: dict[K, deque[Promise[None]]] = {}

    def held(self, name: K) -> _Held[K]:
        """A context for ``async with``. Entering it takes a place in the queue before anything is awaited."""
        return _Held(self, name)

    async def take(self, name: K) -> None:
        """Return when all earlier callers have released the lock."""
        line = self._lines.get(name)
        if line is None:
            self._lines[name] = _NO_WAITERS
            return
        if line is _NO_WAITERS:
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
        """Take the lock if it is free; else return False."""
        if name in self._lines:
            return False
        self._lines[name] = _NO_WAITERS
        return True

    def free(self, name: K) -> bool:
        """Whether the lock is free, so that `take` would not wait."""
        return name not in self._lines

    def leave(self, name: K) -> None:
        """Release the lock; the next waiter gets it."""
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


# The two threads that may hold a `TryLock`.
LOOP: Final = "the loop"
READER: Final = "the thread that reads"


class TryLock:
    """Says which of two threads may touch something, where neither ever waits for the other. Free at first.

    A thread that does not get the lock leaves the thing alone and takes another way. A lock that waits would not
    do: a signal handler that runs while its thread holds the lock may wait for the other thread, which would wait for
    the lock.

    Both calls take the thread's name and may be repeated, so code that was interrupted in between need not know how
    far it came.
    """

    __slots__ = ("_by",)

    def __init__(self) -> None:
        self._by: dict[None, str] = {}

    def take(self, who: str) -> bool:
        """Take it for ``who``; True if ``who`` has it now, also if it did before."""
        return self._by.setdefault(None, who) == who  # atomic: one step of the interpreter

    def leave(self, who: str) -> None:
        """Release it if ``who`` has it."""
        if self._by.get(None) == who:
            self._by.pop(None, None)
