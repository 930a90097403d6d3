"""Locks with names: who has to look first and act then holds one, and nobody who holds the same one acts in between.

An enode may be far away, so that every look at it is a place where others go on. What must not change between a look
and a deed is either one call of the enode or stands under a lock. What must not live here: which locks there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from penstock.seams.runtime import Promise

__all__ = ["Locks"]

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
