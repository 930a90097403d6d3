"""Channel: all the network that a protocol's client may see. Protocol code is plain ``async def`` over it.

Under asyncio a call suspends for real; under the blocking transport it finishes before it returns, so that one
``coroutine.send(None)`` runs a whole operation; under the in-memory transport time is virtual.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.concurrency.locks import TryLock
from penstock.errors import FirstContactTimeout, PenstockError
from penstock.interfaces.framing import Buffers, Frame, Framing
from penstock.model import Endpoint, Node, Partition

__all__ = ["Retry", "RetryLimits", "Routing"]

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

    def lend(self, hold: TryLock) -> LentConnection | None:
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


# The one retry policy of all clients: exponential backoff with jitter, until a deadline.
#
# retry = Retry(channel, options) while True: try: return await attempt() except PenstockError as error: await
# retry.after(error)
#
# Time and dice are the channel's. What is safe to try again is the error's own knowledge (``retriable``). What stays
# with a protocol, in its options: how long each kind of error is worth waiting for.
_JITTER = 0.2


class RetryLimits(Protocol):
    """What a client's options say of attempts and of the pauses between them."""

    @property
    def retry_backoff_ms(self) -> int:
        """The first pause, give or take a fifth; each is twice the one before."""
        ...

    @property
    def retry_backoff_max_ms(self) -> int:
        """The longest pause."""
        ...

    @property
    def api_timeout_ms(self) -> int:
        """How long an operation may take with all its attempts."""
        ...

    def patience_ms(self, error: PenstockError) -> int:
        """How long an operation goes on that ends in this error: ``api_timeout_ms``, or less where waiting seldom
        helps."""
        ...


class Retry:
    """Counts the attempts of one operation; gives up ``timeout_ms`` (None: ``api_timeout_ms``) after its making, or
    after ``begun`` (seconds of the channel's clock)."""

    def __init__(
        self,
        channel: Channel[Any],
        limits: RetryLimits,
        *,
        timeout_ms: float | None = None,
        begun: float | None = None,
    ) -> None:
        self._channel = channel
        self._limits = limits
        self._timeout_ms = limits.api_timeout_ms if timeout_ms is None else timeout_ms
        self._begun = channel.monotonic() if begun is None else begun
        self.attempts = 0

    async def after(self, error: PenstockError) -> None:
        """Wait before the next attempt; raises ``error`` if it is final or there is no time left."""
        if not error.retriable:
            raise error
        await self.pause(error)

    async def pause(self, error: PenstockError, *, seconds: float | None = None) -> None:
        """As ``after``, for errors that the caller knows to pass; ``seconds`` is for who knows how long that takes.

        That no server has answered in time ends everything that waits: it is raised whatever the caller knows.
        """
        if isinstance(error, FirstContactTimeout):
            raise error
        delay = self._backoff_s() if seconds is None else seconds
        self.attempts += 1
        patience_s = min(self._timeout_ms, self._limits.patience_ms(error)) / 1_000
        if self._channel.monotonic() + delay >= self._begun + patience_s:
            if error.hint is None:
                error.hint = f"Gave up after {self.attempts} attempts."
            raise error
        await self._channel.sleep(delay)

    def _backoff_s(self) -> float:
        delay_ms = min(self._limits.retry_backoff_max_ms, self._limits.retry_backoff_ms * 2.0 ** min(self.attempts, 30))
        return delay_ms / 1_000 * (1 - _JITTER + 2 * _JITTER * self._channel.random())


# Routing: who serves a partition as far as a client was told, whom it does not believe any more, when it asks again.
#
# An error that says, or may mean, that somebody else has a partition is no reason to ask at once: the partition has no
# leader until its topic was asked for again, which whoever needs it next does. What stays with a protocol: whom to ask
# and how, what an answer leaves out, and which errors are a reason to doubt. Two that ask for one topic at the same
# moment both ask: a Channel has nothing to wait on but answers.
_NEVER = float("-inf")


class Routing:
    """Of one client's topics, by name. What was told is gone by for ``max_age_ms``, on the channel's clock.

    ``told_of`` is who serves a partition by the last answer that told of it, None where none did.
    """

    def __init__(self, channel: Channel[Any], max_age_ms: int, told_of: Callable[[Partition], Node | None]) -> None:
        self._channel = channel
        self._max_age_s = max_age_ms / 1_000
        self._told_of = told_of
        self._until: dict[str, float] = {}
        self._all_until = _NEVER
        self._distrusted: dict[str, set[Partition]] = {}

    # Who serves a partition.

    def leader(self, partition: Partition) -> Node | None:
        """As far as is known; None after ``distrust`` until an answer told of its topic."""
        return None if partition in self._distrusted.get(partition.topic, ()) else self._told_of(partition)

    async def find(self, partition: Partition, ask: Callable[[Collection[str]], Awaitable[object]]) -> Node | None:
        """The same, with the topic asked for if that is None; None where the answer does not tell, either."""
        node = self.leader(partition)
        if node is None:
            await ask({partition.topic})
            node = self.leader(partition)
        return node

    def distrust(self, partition: Partition) -> None:
        """Its leader is not who we thought: its topic is due."""
        self._distrusted.setdefault(partition.topic, set()).add(partition)
        self._until[partition.topic] = _NEVER

    def believe(self, partition: Partition) -> None:
        """Somebody said who leads it, and is right: its topic is no more due for that."""
        self._distrusted.get(partition.topic, set()).discard(partition)

    # When to ask.

    def due(self, names: Collection[str]) -> set[str]:
        """Those of ``names`` that nobody told of, or too long ago, or that are in doubt."""
        now = self._channel.monotonic()
        return {name for name in names if now >= self._until.get(name, self._all_until)}

    def all_due(self) -> bool:
        """Whether the list of all topics is too old, if there is one."""
        return self._channel.monotonic() >= self._all_until

    # What was told.

    def told(self, names: Iterable[str]) -> None:
        """An answer to a question told of these just now."""
        until = self._channel.monotonic() + self._max_age_s
        for name in names:
            self._until[name] = until
            self._distrusted.pop(name, None)

    def told_all(self) -> None:
        """An answer listed all topics just now: those that it leaves out are known not to be there."""
        self._all_until = self._channel.monotonic() + self._max_age_s

    def told_unasked(self, name: str) -> None:
        """Somebody told of its partitions, whether they are there or not; who asks for it asks all the same."""
        self._distrusted.pop(name, None)

    def forget(self, name: str) -> None:
        """It is not there: go by the list of all topics, if there is one."""
        self._until.pop(name, None)
        self._distrusted.pop(name, None)
