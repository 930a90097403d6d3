"""Runtime, the node side's only clock, timers and waiting; and helpers for values and deadlines that are yet to come.

Protocol code gets a `Runtime` passed in and imports no asyncio. `Deferred` is an answer that comes later, without a
task. `WaiterSet` has the waiters of one connection, `retry_while_unreachable` retries while an enode is unreachable,
and `Deadlines` are timeouts by key.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Iterator
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.errors import UpstreamLost

__all__ = ["Deadlines", "Deferred", "WaiterSet", "arrived", "retry_while_unreachable"]

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Promise(Awaitable[T], Protocol[T]):
    """A value that will be set once; awaiting it suspends the caller. Setting it again does nothing."""

    def set(self, value: T) -> None: ...

    @property
    def done(self) -> bool: ...


class Runtime(Protocol):
    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, counted only while the node can serve. Deadlines of clients use this clock.

        It stops while work holds the loop, or while the process is stopped.
        """
        ...

    def promise(self) -> Promise[Any]: ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call back when `monotonic` has advanced by ``delay_s`` seconds; 0 means the loop's next iteration."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run ``work`` concurrently until it ends or the node stops; its exception is logged and ends the node."""
        ...

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """As `spawn`, but run ``work`` up to its first wait before returning, outside any task (`Session.at_once`)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Pause in the loop's own time; for periodic work, not for deadlines."""
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work (fsync) outside the loop."""
        ...

    def random_bytes(self, count: int) -> bytes: ...


class Deferred(Generic[T]):
    """A deferred answer: set once with `give`, and delivered once, to a callback (`tell`) or to one ``await``.

    No task waits for it, because a waiting task costs a node more than most answers do.

    >>> later: Later[int] = Later(runtime.promise)    # doctest: +SKIP
    >>> later.tell(print)                             # doctest: +SKIP
    >>> later.give(1)                                 # doctest: +SKIP
    1
    """

    __slots__ = ("_given", "_new_promise", "_tell", "_value")

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._tell: Callable[[T], None] | None = None
        self._given = False
        self._value: T

    def give(self, value: T) -> None:
        """Set the value, and call the callback if there is one. Raises what the callback raises."""
        if self._tell is not None:
            self._tell(value)
        else:
            self._value, self._given = value, True

    def tell(self, callback: Callable[[T], None]) -> None:
        """Register a callback; it is called at once if the value is set already."""
        if self._given:
            callback(self._value)
        else:
            self._tell = callback

    def come(self) -> T | None:
        """Return the value if it is set already, so that no callback is needed; else None."""
        return self._value if self._given else None

    def __await__(self) -> Generator[Any, None, T]:
        promise: Promise[T] = self._new_promise()
        self.tell(promise.set)
        return (yield from promise.__await__())


async def arrived(answer: T | Deferred[T] | None) -> T | None:
    """Return the final answer, whether it is there already, comes later, or is None."""
    return await answer if isinstance(answer, Deferred) else answer


class WaiterSet:
    """The promises that one connection's handlers await. All are set early when the connection ends or the node stops.

    ``over``: that has happened.
    """

    __slots__ = ("_parked", "over")

    def __init__(self) -> None:
        self.over = False
        self._parked: set[Promise[None]] = set()

    @property
    def held(self) -> int:
        """How many handlers wait here."""
        return len(self._parked)

    async def park(self, promise: Promise[None]) -> None:
        """Wait for ``promise``, which is set early if the connection ends or the node stops (``over``)."""
        if self.over:
            promise.set(None)
        self._parked.add(promise)
        try:
            await promise
        finally:
            self._parked.discard(promise)

    def release(self) -> None:
        """Set all promises, because no answer is wanted any more."""
        self.over = True
        for promise in list(self._parked):
            promise.set(None)


# For work whose client cannot ask again: answers without a place for an error, and the rest of a change that has been
# made already. All other work answers with an error code, and the client retries.
_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


async def retry_while_unreachable(runtime: Runtime, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``work``, retried for about three seconds. Raises UpstreamLost if the last attempt does."""
    for pause_s in _PAUSES_S:
        try:
            return await work()
        except UpstreamLost:
            await runtime.sleep(pause_s)
    return await work()


K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """Deadlines by key, at most one per key, the earliest first. Times are seconds of a monotonic clock, passed in.

    A heartbeat moves its member's deadline thousands of times before it is ever due. So moving a deadline later only
    notes the new time; the heap is corrected when the old entry comes up.

    >>> deadlines = Deadlines[str]()
    >>> deadlines.set("a", 5.0)
    >>> deadlines.set("b", 3.0)
    >>> list(deadlines.due(4.0)), deadlines.next()
    (['b'], 5.0)
    """

    def __init__(self) -> None:
        self._times: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._scheduled: dict[K, float] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: K) -> bool:
        return key in self._times

    def set(self, key: K, when: float) -> None:
        """Set the deadline of ``key``, replacing an earlier one."""
        self._times[key] = when
        scheduled = self._scheduled.get(key)
        if scheduled is None or when < scheduled:
            self._push(key, when)

    def cancel(self, key: K) -> None:
        """Remove the deadline of ``key``; nothing happens if it has none."""
        self._times.pop(key, None)

    def due(self, now: float) -> Iterator[K]:
        """Remove and yield the keys whose deadline is not after ``now``, the earliest first.

        Deadlines that the caller sets or cancels between two keys are respected.
        """
        while (when := self.next()) is not None and when <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._scheduled[key]
            del self._times[key]
            yield key

    def next(self) -> float | None:
        """The earliest deadline; None if there is none."""
        while self._heap:
            when, _, key = self._heap[0]
            wanted = self._times.get(key)
            if self._scheduled.get(key) != when:
                heapq.heappop(self._heap)  # an entry that an earlier one replaced
            elif wanted is None:
                heapq.heappop(self._heap)
                del self._scheduled[key]
            elif wanted > when:
                heapq.heappop(self._heap)
                self._push(key, wanted)
            else:
                return when
        return None

    def not_before(self) -> float | None:
        """A time before which nothing is due; None if nothing ever is. Cheap, and may be earlier than `next`."""
        return self._heap[0][0] if self._heap else None

    def _push(self, key: K, when: float) -> None:
        self._scheduled[key] = when
        heapq.heappush(self._heap, (when, next(self._order), key))
        if len(self._heap) > 2 * len(self._times) + 64:
            self._rebuild()

    def _rebuild(self) -> None:
        self._scheduled = dict(self._times)
        self._heap = [(when, next(self._order), key) for key, when in self._times.items()]
        heapq.heapify(self._heap)
