"""Runtime: the node side's only clock, timers and waiting. Fronts and services get one; they import no asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

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
