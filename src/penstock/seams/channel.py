"""Channel: all the network that a protocol's client may see. Protocol code is plain ``async def`` over it.

Under asyncio a call suspends for real; under the blocking transport it finishes before it returns, so that one
``coroutine.send(None)`` runs a whole operation; under the in-memory transport time is virtual.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.errors import PenstockError
from penstock.model import Endpoint
from penstock.seams.framing import Buffers, Frame, Framing
from penstock.seams.hold import Hold

T = TypeVar("T")
State = TypeVar("State", covariant=True)

Outgoing = Callable[[int], Buffers]
"""A request: given the correlation id that the connection chose, the framed bytes to write."""


Many = Callable[[Sequence[int]], Buffers]
"""Requests in one piece: given the correlation ids that the connection chose, the framed bytes of all, in order."""

Told = Callable[[Frame | PenstockError], None]
"""Hears of an answer, or of what it failed with: RequestTimeout, ConnectionLost, ProtocolViolation."""


ToldOfMany = Callable[[int, Frame | PenstockError], None]
"""Likewise of one of several, by its place among them, from 0."""


class Pending(Protocol):
    """A request on its way; several may be at once on one connection."""

    @property
    def answered(self) -> bool:
        """Whether ``reply`` has nothing to wait for: the answer is there, or there will be none."""
        ...

    async def reply(self) -> Frame:
        """The answer. Raises RequestTimeout or ConnectionLost."""
        ...


class Connection(Protocol):
    """One open connection."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def closed(self) -> bool: ...

    def start(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> Pending:
        """Write a request now; its answer is fetched later. Raises ConnectionLost.

        ``held_s``: for how long the peer may keep the answer on purpose, so that nobody takes it for silent.
        """
        ...

    def start_all(self, requests: Sequence[Outgoing], *, timeout_s: float) -> Sequence[Pending]:
        """As ``start`` for each, in their order, but in one write: for many small ones."""
        ...

    async def call(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> Frame:
        """Write a request as ``start`` does, and wait for its answer."""
        ...

    async def send(self, message: Outgoing) -> None:
        """Write something that is never answered (Kafka acks=0, one-way commands). Waits while the window is full."""
        ...

    def close(self) -> None: ...


class PromptConnection(Connection, Protocol):
    """A connection that can call back instead of being waited for: no task and no future for a small request."""

    @property
    def under_way(self) -> int:
        """Requests that are not answered yet."""
        ...

    def tell(self, request: Outgoing, told: Told, *, timeout_s: float, held_s: float = 0.0) -> None:
        """Write a request as ``start`` does; ``told`` is called with its answer, and must not raise.

        With an answer as soon as it has come, with an error in a turn of the loop of its own. Raises ConnectionLost.
        """
        ...

    def tell_all(self, count: int, requests: Many, told: ToldOfMany, *, timeout_s: float) -> None:
        """As ``tell`` for ``count`` requests, written in one go: ``told`` is called with the place and answer of each.

        An error ends all that are unanswered.
        """
        ...

    def lend(self, hold: Hold) -> LentConnection | None:
        """Have a thread receive here and write by itself, which has ``hold`` while it does. Called on the loop, which
        leaves the connection alone until it is given back: nobody else may ask for anything meanwhile.

        None where that cannot be (TLS, another network), or where there is more to wait for than one answer, which
        whoever asked by ``tell`` is to be told.
        """
        ...


class LentConnection(Protocol):
    """A connection in the hands of a thread that waits for its answers: one request under way at a time, begun with the
    one that was when it was lent. Whoever asked for that hears of what becomes of the last one, as soon as it is given
    back. But for ``over`` everything is called with the hold.
    """

    @property
    def fileno(self) -> int:
        """What to wait for until something comes; not to be touched otherwise."""
        ...

    @property
    def over(self) -> bool:
        """The loop has it again, or it has ended. May be asked at any time."""
        ...

    def receive(self) -> Frame | None:
        """The answer; None where it is not whole yet, or where something else came and it was given back for that."""
        ...

    def send(self, request: Outgoing, *, timeout_s: float, held_s: float) -> bool:
        """Write the next request, after the answer; False where it is over, and nothing was written."""
        ...

    def give_back(self, frame: Frame | None = None, then: Callable[[], None] | None = None) -> None:
        """The loop goes on, which still has to hear ``frame``; or does ``then``, where the answer was heard, unless the
        connection ends before. Does nothing where it is over."""
        ...

    def forget(self) -> None:
        """It is over, and nobody waits for its descriptor any more."""
        ...

    def break_off(self, then: Callable[[], None]) -> None:
        """Something went wrong on the way, nobody knows how far it is: the loop does ``then``, and ends it."""
        ...


class Dialect(Protocol[State]):
    """What a protocol adds to a bare connection."""

    def framing(self) -> Framing:
        """A fresh receiving side."""
        ...

    async def greet(self, connection: Connection) -> State:
        """First words on a fresh connection (version negotiation, authentication); the result is kept beside it."""
        ...

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """The peer sent something of its own accord; an answer to write, if any."""
        ...


class Link(Protocol, Generic[State]):
    """A greeted connection and what greeting found out."""

    @property
    def connection(self) -> Connection: ...

    @property
    def state(self) -> State: ...


class PromptLink(Protocol, Generic[State]):
    """A link on which a request can be written now."""

    @property
    def connection(self) -> PromptConnection: ...

    @property
    def state(self) -> State: ...


class Channel(Protocol, Generic[State]):
    """Links by (endpoint, lane), made on demand, remade after loss; and the client's only clock and dice."""

    async def link(self, endpoint: Endpoint, lane: str = "") -> Link[State]:
        """An open link; two lanes to one endpoint are two connections. Raises ConnectionLost, ProtocolViolation."""
        ...

    def prompt(self, endpoint: Endpoint, lane: str = "") -> PromptLink[State] | None:
        """The link of this lane if it is open and nobody waits to write on it; else None, and ``link`` has to be
        awaited. A request that is written on it at once overtakes nobody."""
        ...

    async def reach(self, endpoint: Endpoint, lane: str = "", *, within_s: float) -> Link[State]:
        """As ``link``, for callers who would rather ask somebody else than wait longer than that.

        Where the transport can, the attempt goes on beside them, for whoever comes back to it.
        """
        ...

    def rests(self, endpoint: Endpoint) -> bool:
        """Whether connecting to it failed a moment ago, so that ``link`` would wait before it tries again."""
        ...

    def trouble(self, endpoint: Endpoint) -> PenstockError | None:
        """What the last attempt to connect to it has met; None where it succeeded, or there was none."""
        ...

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
        """Run all, side by side where the transport can; results or exceptions in order."""
        ...

    async def any_of(self, requests: Sequence[Pending], *, within_s: float) -> None:
        """Wait until one of these is answered, but not longer than that; without any, for that time.

        A transport that cannot wait for several waits for the first one.
        """
        ...

    async def sleep(self, seconds: float) -> None: ...

    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def random(self) -> float:
        """Uniform in [0, 1); for jitter and random choices."""
        ...

    async def close(self) -> None: ...
