"""Runtime: the node side's only clock, timers and waiting. Pure code gets one and imports no asyncio."""

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
    """A value that will be set once; awaiting it parks the caller. Setting it again does nothing."""

    def set(self, value: T) -> None: ...

    @property
    def done(self) -> bool: ...


class Runtime(Protocol):
    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, in which the node served; deadlines of clients are counted in it.

        It stands still while the node cannot serve: while work holds the loop, or the process is stopped.
        """
        ...

    def promise(self) -> Promise[Any]: ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call back when `monotonic` has gone on by ``delay_s`` seconds; 0: in the loop's next turn."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run beside everything else until it ends or the node stops; its exception is logged and ends the node."""
        ...

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """As `spawn`, but what needs no waiting is done when it returns, outside any task (see `Session.at_once`)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """A pause of the loop's own time; for periodic work, not for deadlines."""
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work (fsync) outside the loop."""
        ...

    def random_bytes(self, count: int) -> bytes: ...


# Later: an answer that is not there yet and that no task waits for. Who makes it gives it, who wants it is called.
#
# A task that waits for an answer costs a node more than most answers do.


class Deferred(Generic[T]):
    """Given once, and told once: either by a call of what `tell` was given, or to who awaits it.

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
        """Here it is. Raises what the one who is told raises."""
        if self._tell is not None:
            self._tell(value)
        else:
            self._value, self._given = value, True

    def tell(self, told: Callable[[T], None]) -> None:
        """Have ``told`` called with it: when it comes, or now if it came already."""
        if self._given:
            told(self._value)
        else:
            self._tell = told

    def come(self) -> T | None:
        """It, where it is here already: then nobody need be told."""
        return self._value if self._given else None

    def __await__(self) -> Generator[Any, None, T]:
        promise: Promise[T] = self._new_promise()
        self.tell(promise.set)
        return (yield from promise.__await__())


async def arrived(answer: T | Deferred[T] | None) -> T | None:
    """What it is in the end, whether it came at once, comes later, or is none."""
    return await answer if isinstance(answer, Deferred) else answer


# Where a connection's handlers wait: for promises that come early when nobody is there to be answered.
class WaiterSet:
    """One connection's. ``over``: it has ended, or the node stops."""

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
        """Nothing is worth waiting for any more."""
        self.over = True
        for promise in list(self._parked):
            promise.set(None)


# Patience with an enode that was lost for a moment: what may be done twice is tried again before anybody is told.
#
# For what a client cannot ask for again: answers that have no place for an error, and what belongs to a deed that is
# done already. Everything else is answered by a code, and who asked tries again.

_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


async def retry_while_unreachable(runtime: Runtime, work: Callable[[], Awaitable[T]]) -> T:
    """The result of ``work``, tried again for about three seconds. Raises UpstreamLost where that is not enough."""
    for pause_s in _PAUSES_S:
        try:
            return await work()
        except UpstreamLost:
            await runtime.sleep(pause_s)
    return await work()


# Deadlines by key, the earliest first, with the clock passed in.
#
# A heartbeat moves its member's deadline further away thousands of times before it is ever due, so moving one later
# only notes the new time; the heap learns of it when the old entry comes up.
K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """At most one deadline a key. Times are seconds of a monotonic clock.

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
        """Give ``key`` a deadline, instead of the one it may have."""
        self._times[key] = when
        scheduled = self._scheduled.get(key)
        if scheduled is None or when < scheduled:
            self._push(key, when)

    def cancel(self, key: K) -> None:
        """Take the deadline of ``key`` away; nothing happens if it has none."""
        self._times.pop(key, None)

    def due(self, now: float) -> Iterator[K]:
        """Take out, one by one, the keys whose deadline is not after ``now``; the earliest first.

        What the caller sets or cancels between two of them counts.
        """
        while (when := self.next()) is not None and when <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._scheduled[key]
            del self._times[key]
            yield key

    def next(self) -> float | None:
        """The earliest deadline, None if there is none."""
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
        """Nothing is due before that; None if nothing ever is. Costs nothing, and may be earlier than `next`."""
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
