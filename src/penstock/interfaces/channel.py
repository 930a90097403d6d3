"""Channel: all that a protocol's client sees of the network; and retries and routing over it.

Protocol code is plain ``async def``. Under asyncio a call really suspends. Under the blocking transport it finishes
before it returns, so that one ``coroutine.send(None)`` runs a whole operation. In memory, time is virtual.

`Retry` is the retry policy of all clients, and `Routing` remembers which node leads a partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from penstock.concurrency.locks import TryLock
from penstock.errors import FirstContactTimeout, PenstockError
from penstock.interfaces.framing import Buffers, Frame, Framing
from penstock.model import Endpoint, Node, Partition

__all__ = ["Retry", "RetryLimits", "Routing"]

T = TypeVar("T")
State = TypeVar("State", covariant=True)

Outgoing = Callable[[int], Buffers]
"""A request: a function from the correlation id that the connection chose to the framed bytes to write."""


Many = Callable[[Sequence[int]], Buffers]
"""Several requests as one: a function from the connection's correlation ids to the framed bytes of all, in order."""

OnAnswer = Callable[[Frame | PenstockError], None]
"""A callback for an answer or its failure: RequestTimeout, ConnectionLost or ProtocolViolation."""


OnAnswers = Callable[[int, Frame | PenstockError], None]
"""As `OnAnswer` for one of several requests, with its index from 0."""


class Pending(Protocol):
    """A request that is under way; one connection may have several."""

    @property
    def answered(self) -> bool:
        """Whether ``reply`` would not wait: the answer is there, or there will be none."""
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

        ``held_s``: how long the peer may delay the answer on purpose, without counting as silent.
        """
        ...

    def start_all(self, requests: Sequence[Outgoing], *, timeout_s: float) -> Sequence[Pending]:
        """As ``start`` for each request in order, but in one write; for many small ones."""
        ...

    async def call(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> Frame:
        """Write a request as ``start`` does, and return its answer."""
        ...

    async def send(self, message: Outgoing) -> None:
        """Write a message that is never answered (Kafka acks=0, one-way commands). Waits while the window is full."""
        ...

    def close(self) -> None: ...


class PromptConnection(Connection, Protocol):
    """A connection that can call back with an answer, so that a small request needs no task and no future."""

    @property
    def under_way(self) -> int:
        """Requests that are not answered yet."""
        ...

    def tell(self, request: Outgoing, on_answer: OnAnswer, *, timeout_s: float, held_s: float = 0.0) -> None:
        """Write a request as ``start`` does, and call ``on_answer`` with its answer; it must not raise.

        An answer is passed on as soon as it arrives, an error in its own iteration of the loop. Raises ConnectionLost.
        """
        ...

    def tell_all(self, count: int, requests: Many, on_answer: OnAnswers, *, timeout_s: float) -> None:
        """As ``tell`` for ``count`` requests, in one write; ``on_answer`` gets the index and answer of each.

        An error ends all requests that are unanswered.
        """
        ...

    def lend(self, hold: TryLock) -> LentConnection | None:
        """Let a thread that has ``hold`` receive and write here by itself. Called on the loop.

        The loop leaves the connection alone until it is given back, and no other caller may use it meanwhile. Returns
        None where lending is impossible (TLS, another transport), or where more than one answer of ``tell`` is due.
        """
        ...


class LentConnection(Protocol):
    """A connection in the hands of a thread that waits for its answers, with one request under way at a time.

    The first such request is the one that was under way when it was lent. Its caller receives the answer to the last
    request once the connection is given back. All calls but ``over`` need the `TryLock`.
    """

    @property
    def fileno(self) -> int:
        """The descriptor to wait on for data; do not use it in any other way."""
        ...

    @property
    def over(self) -> bool:
        """Whether the loop has it again, or it has ended. May be read at any time."""
        ...

    def receive(self) -> Frame | None:
        """Return the answer. None: it is incomplete, or something else arrived and the connection was given back."""
        ...

    def send(self, request: Outgoing, *, timeout_s: float, held_s: float) -> bool:
        """Write the next request, after an answer. False if lending is over; then nothing was written."""
        ...

    def give_back(self, frame: Frame | None = None, then: Callable[[], None] | None = None) -> None:
        """Give the connection back to the loop, which delivers ``frame``.

        If the answer was delivered here, the loop calls ``then`` instead, unless the connection ends first. Does
        nothing where lending is over.
        """
        ...

    def forget(self) -> None:
        """Lending is over, and the descriptor is no longer waited on."""
        ...

    def break_off(self, then: Callable[[], None]) -> None:
        """Something failed at an unknown point: the loop calls ``then`` and closes the connection."""
        ...


class Dialect(Protocol[State]):
    """What a protocol adds to a bare connection."""

    def framing(self) -> Framing:
        """Return a new `Framing` for one connection."""
        ...

    async def greet(self, connection: Connection) -> State:
        """Exchange the first messages (version negotiation, authentication); the result becomes `Link.state`."""
        ...

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Handle a frame that the peer sent unasked; return bytes to write, if any."""
        ...


class Link(Protocol, Generic[State]):
    """A connection after its greeting, and the result of the greeting."""

    @property
    def connection(self) -> Connection: ...

    @property
    def state(self) -> State: ...


class PromptLink(Protocol, Generic[State]):
    """A link on which a request can be written without waiting."""

    @property
    def connection(self) -> PromptConnection: ...

    @property
    def state(self) -> State: ...


class Channel(Protocol, Generic[State]):
    """Links by (endpoint, lane), opened on demand and reopened after loss; also the client's only clock and random
    source."""

    async def link(self, endpoint: Endpoint, lane: str = "") -> Link[State]:
        """Return an open link; two lanes to one endpoint are two connections.

        Raises ConnectionLost, ProtocolViolation.
        """
        ...

    def prompt(self, endpoint: Endpoint, lane: str = "") -> PromptLink[State] | None:
        """Return the lane's link if it is open and no caller is queued to write on it; else None: await ``link`` then.

        A request that is written on it at once overtakes no other.
        """
        ...

    async def reach(self, endpoint: Endpoint, lane: str = "", *, within_s: float) -> Link[State]:
        """As ``link``, for callers that turn to another node rather than wait longer than ``within_s``.

        Where the transport can, the attempt continues in the background and serves the next caller.
        """
        ...

    def rests(self, endpoint: Endpoint) -> bool:
        """Whether connecting to it failed a moment ago, so that ``link`` would wait before the next attempt."""
        ...

    def trouble(self, endpoint: Endpoint) -> PenstockError | None:
        """The error of the last attempt to connect to it; None if it succeeded, or there was none."""
        ...

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
        """Run all, concurrently where the transport can; return results or exceptions in order."""
        ...

    async def any_of(self, requests: Sequence[Pending], *, within_s: float) -> None:
        """Wait until one of ``requests`` is answered, at most ``within_s``; without requests, wait that long.

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


_JITTER = 0.2


class Backoff(Struct, frozen=True):
    """Exponential backoff with 20 % jitter, as in Kafka's clients (KIP-580). ``random`` is uniform in [0, 1)."""

    first_ms: float
    max_ms: float
    random: Callable[[], float]

    def seconds(self, failures: int) -> float:
        """How long to wait after so many failures in a row (1 or more)."""
        delay_ms = min(self.max_ms, self.first_ms * 2.0 ** min(failures - 1, 30))
        return delay_ms * (1 - _JITTER + 2 * _JITTER * self.random()) / 1_000


class RetryLimits(Protocol):
    """The options of a client that limit attempts and the pauses between them."""

    @property
    def retry_backoff_ms(self) -> int:
        """The first pause, give or take a fifth; each further pause is twice as long."""
        ...

    @property
    def retry_backoff_max_ms(self) -> int:
        """The longest pause."""
        ...

    @property
    def api_timeout_ms(self) -> int:
        """How long an operation may take, including all attempts."""
        ...

    def patience_ms(self, error: PenstockError) -> int:
        """How long an operation is retried that ends in ``error``: ``api_timeout_ms``, or less where waiting seldom
        helps."""
        ...


class Retry:
    """The retry policy of all clients: exponential backoff with jitter until a deadline. One instance per operation.

        retry = Retry(channel, options)
        while True:
            try:
                return await attempt()
            except PenstockError as error:
                await retry.after(error)

    The deadline is ``timeout_ms`` (None: ``api_timeout_ms``) after the instance was made, or after ``begun`` (seconds
    of the channel's clock). An error knows itself whether it may be retried (``retriable``). The protocol's options say
    how long each kind of error is worth waiting for.
    """

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
        self._backoff = Backoff(limits.retry_backoff_ms, limits.retry_backoff_max_ms, channel.random)
        self._timeout_ms = limits.api_timeout_ms if timeout_ms is None else timeout_ms
        self._begun = channel.monotonic() if begun is None else begun
        self.attempts = 0

    async def after(self, error: PenstockError) -> None:
        """Wait before the next attempt. Raises ``error`` if it is final or the time is up."""
        if not error.retriable:
            raise error
        await self.pause(error)

    async def pause(self, error: PenstockError, *, seconds: float | None = None) -> None:
        """As ``after``, for errors that the caller knows to be temporary; ``seconds`` is the pause, if the caller knows
        it.

        FirstContactTimeout is always raised: no server answered in time, which ends everything that waits.
        """
        if isinstance(error, FirstContactTimeout):
            raise error
        self.attempts += 1
        delay = self._backoff.seconds(self.attempts) if seconds is None else seconds
        patience_s = min(self._timeout_ms, self._limits.patience_ms(error)) / 1_000
        if self._channel.monotonic() + delay >= self._begun + patience_s:
            if error.hint is None:
                error.hint = f"Gave up after {self.attempts} attempts."
            raise error
        await self._channel.sleep(delay)


# Routing.
#
# After an error that says, or may mean, that a partition has moved, the client does not ask at once. The partition has
# no leader until its topic is asked for again, and the next caller that needs the partition does that. A protocol
# decides which node it asks and how, what an answer leaves out, and which errors cast doubt on a leader. Two callers
# that need one topic at the same moment both ask, because a Channel offers nothing to wait on but answers.
_NEVER = float("-inf")


class Routing:
    """Which node leads each partition of one client's topics, as far as it is known, and which topics to ask for again.

    Answers are valid for ``max_age_ms``, on the channel's clock. ``known_leader`` returns the leader from the last
    answer about a partition, or None.
    """

    def __init__(
        self, channel: Channel[Any], max_age_ms: int, known_leader: Callable[[Partition], Node | None]
    ) -> None:
        self._channel = channel
        self._max_age_s = max_age_ms / 1_000
        self._known_leader = known_leader
        self._until: dict[str, float] = {}
        self._all_until = _NEVER
        self._distrusted: dict[str, set[Partition]] = {}

    # The leader of a partition.

    def leader(self, partition: Partition) -> Node | None:
        """The leader as far as it is known; None from ``distrust`` until the next answer about its topic."""
        return None if partition in self._distrusted.get(partition.topic, ()) else self._known_leader(partition)

    async def find(self, partition: Partition, ask: Callable[[Collection[str]], Awaitable[object]]) -> Node | None:
        """As ``leader``, but ask for the topic if it is unknown; None if the answer does not say, either."""
        node = self.leader(partition)
        if node is None:
            await ask({partition.topic})
            node = self.leader(partition)
        return node

    def distrust(self, partition: Partition) -> None:
        """Doubt the leader of this partition, so that its topic is due."""
        self._distrusted.setdefault(partition.topic, set()).add(partition)
        self._until[partition.topic] = _NEVER

    def believe(self, partition: Partition) -> None:
        """A correct leader was named, so the topic is no longer due for this partition."""
        self._distrusted.get(partition.topic, set()).discard(partition)

    # When to ask.

    def due(self, names: Collection[str]) -> set[str]:
        """Those of ``names`` that are unknown, too old, or in doubt."""
        now = self._channel.monotonic()
        return {name for name in names if now >= self._until.get(name, self._all_until)}

    def all_due(self) -> bool:
        """Whether the list of all topics is missing or too old."""
        return self._channel.monotonic() >= self._all_until

    # Answers.

    def answered(self, names: Iterable[str]) -> None:
        """Note an answer that covered these topics just now."""
        until = self._channel.monotonic() + self._max_age_s
        for name in names:
            self._until[name] = until
            self._distrusted.pop(name, None)

    def answered_all(self) -> None:
        """Note an answer that listed all topics just now; topics that it leaves out are known not to exist."""
        self._all_until = self._channel.monotonic() + self._max_age_s

    def announced(self, name: str) -> None:
        """Note an unrequested answer about this topic.

        It clears doubts, but a topic that is due stays due.
        """
        self._distrusted.pop(name, None)

    def forget(self, name: str) -> None:
        """The topic does not exist: rely on the list of all topics, if there is one."""
        self._until.pop(name, None)
        self._distrusted.pop(name, None)
