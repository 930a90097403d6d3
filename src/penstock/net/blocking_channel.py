"""BlockingChannel: a protocol's network over plain sockets, without event loop or thread.

Nothing suspends. Each call has finished when it returns, so ``run`` executes a whole operation with one ``send(None)``.
One thread at a time may use a channel; only its `Stop` is thread-safe.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock import _clock
from penstock.errors import (
    Closed,
    ConnectionLost,
    FirstContactTimeout,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    UsageError,
)
from penstock.interfaces.channel import Dialect, Link, Outgoing, Pending
from penstock.interfaces.framing import Buffer, Buffers, Frame
from penstock.model import Endpoint
from penstock.net.buffers import allocate, join_small
from penstock.net.connecting import (
    LARGEST_CORRELATION,
    NO_ADDRESS,
    REFUSAL_S,
    EndpointBackoff,
    FirstContact,
    OpenLink,
    Silence,
    Stop,
    TransportOptions,
    UnreachableNodeLog,
    hung_up,
    lost,
    no_connection,
    silent,
    timed_out,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["BlockingChannel", "BlockingConnection", "BlockingPending", "run"]

# One connection: a socket. A caller that waits for an answer reads it, and keeps the answers to others.
_AT_ONCE_S = 0.001
_ANY_BYTES = 64 << 10


class BlockingPending:
    """A request under way. Its timeout runs only during ``reply``.

    A reader may spend a minute with earlier data before it asks for an answer that arrived long ago.
    """

    __slots__ = ("_connection", "_correlation", "_held_s", "_timeout_s")

    def __init__(self, connection: BlockingConnection, correlation: int, timeout_s: float, held_s: float = 0.0) -> None:
        self._connection = connection
        self._correlation = correlation
        self._timeout_s = timeout_s
        self._held_s = held_s

    @property
    def answered(self) -> bool:
        """Whether ``reply`` would not wait."""
        return self._connection.closed or self._connection.has_answer(self._correlation)

    def wait(self) -> None:
        """Read until the answer is there and keep it for ``reply``, or until there can be none."""
        with contextlib.suppress(PenstockError):
            self._connection.keep_answer(self._correlation, self._timeout_s, self._held_s)

    async def reply(self) -> Frame:
        """Read until the answer is there. Raises RequestTimeout, ConnectionLost, ProtocolViolation."""
        return self._connection.read_answer(self._correlation, self._timeout_s, self._held_s)


class BlockingConnection:
    """``penstock.interfaces.channel.Connection`` over a socket. Nothing in it suspends. For one thread at a time."""

    def __init__(
        self,
        endpoint: Endpoint,
        sock: socket.socket,
        dialect: Dialect[Any],
        away: UnreachableNodeLog,
        stop: Stop,
        *,
        greeted_until: float = float("inf"),
        contact: FirstContact | None = None,
    ) -> None:
        self._contact = contact or FirstContact()
        self._heard = False
        self._silence = Silence(endpoint, away)
        self._stop = stop
        self._until = greeted_until
        self._endpoint = endpoint
        self._socket = sock
        self._dialect = dialect
        self._framing = dialect.framing()
        self._last = 0
        self._last_used = _clock.monotonic()
        self._awaited: set[int] = set()
        self._arrived: dict[int, Frame] = {}
        self._end: PenstockError | None = None
        self._any_came = False

    @property
    def endpoint(self) -> Endpoint:
        """The peer's address."""
        return self._endpoint

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._end is not None

    def greeted(self) -> None:
        """End the common deadline of the greeting; from now on every request has its own timeout."""
        self._until = float("inf")

    def usable(self, idle_timeout_s: float) -> bool:
        """Whether it is open, and not idle for so long that the peer may be about to close it."""
        idle = not self._awaited and _clock.monotonic() - self._last_used > idle_timeout_s
        return self._end is None and not idle

    def start(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> BlockingPending:
        """Write a request now. Raises ConnectionLost, RequestTimeout if the peer does not take it."""
        self._last = correlation = self._last % LARGEST_CORRELATION + 1
        self._write(request(correlation), timeout_s)
        self._awaited.add(correlation)
        return BlockingPending(self, correlation, timeout_s, held_s)

    def start_all(self, requests: Sequence[Outgoing], *, timeout_s: float) -> Sequence[BlockingPending]:
        """Write requests now, in one go. Raises as ``start``."""
        buffers: list[Buffer] = []
        correlations: list[int] = []
        for request in requests:
            self._last = self._last % LARGEST_CORRELATION + 1
            correlations.append(self._last)
            buffers.extend(request(self._last))
        self._write(buffers, timeout_s)
        self._awaited.update(correlations)
        return [BlockingPending(self, correlation, timeout_s) for correlation in correlations]

    async def call(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> Frame:
        """Write a request and read its answer."""
        return await self.start(request, timeout_s=timeout_s, held_s=held_s).reply()

    async def send(self, message: Outgoing) -> None:
        """Write a message that is never answered."""
        self._last = self._last % LARGEST_CORRELATION + 1
        self._write(message(self._last), timeout_s=30.0)

    def close(self) -> None:
        """Close the socket; requests under way will raise ConnectionLost."""
        self._ended(ConnectionLost("the connection was closed", node=str(self._endpoint)))

    def has_answer(self, correlation: int) -> bool:
        """Whether the answer was read during a wait for another one."""
        return correlation in self._arrived

    def keep_answer(self, correlation: int, timeout_s: float, held_s: float) -> None:
        """As ``read_answer``, but keep the answer."""
        self._arrived[correlation] = self.read_answer(correlation, timeout_s, held_s)

    def read_answer(self, correlation: int, timeout_s: float, held_s: float) -> Frame:
        """Called by BlockingPending. Answers to other requests are kept for their callers."""
        frame = self._arrived.pop(correlation, None)
        if frame is not None:
            return frame
        begun = _clock.monotonic()
        deadline = min(begun + timeout_s, self._until)
        if not self._heard:
            deadline = min(deadline, self._contact.begin(begun))
        self._silence.asked(begun, held_s, owed=False)  # before this, nothing was reading
        while True:
            frame = self._read_frame(deadline, timeout_s)
            if not frame.reply:
                self._answer_push(frame, timeout_s)
                continue
            if frame.correlation not in self._awaited:
                raise self._break(
                    ProtocolViolation(
                        f"an answer to request {frame.correlation}, which was not asked", node=str(self._endpoint)
                    )
                )
            self._awaited.discard(frame.correlation)
            if frame.correlation == correlation:
                return frame
            self._arrived[frame.correlation] = frame

    def _answer_push(self, frame: Frame, timeout_s: float) -> None:
        answer = self._dialect.pushed(self, frame)
        if answer is not None:
            self._write(answer, timeout_s)

    def _write(self, buffers: Buffers, timeout_s: float) -> None:
        if self._end is not None:
            raise lost(self._endpoint, self._end.message)
        self._last_used = _clock.monotonic()
        try:
            self._socket.settimeout(max(min(timeout_s, self._until - _clock.monotonic()), _AT_ONCE_S))
            for buffer in join_small(buffers):
                self._socket.sendall(buffer)
        except TimeoutError:
            raise self._break(timed_out(self._endpoint, timeout_s)) from None
        except OSError as error:
            raise self._break(self._broken(error)) from None
        except BaseException as error:  # Ctrl-C in the middle of a request
            self._break(lost(self._endpoint, repr(error)))
            raise

    def _read_frame(self, deadline: float, timeout_s: float) -> Frame:
        if self._end is not None:
            raise lost(self._endpoint, self._end.message)
        try:
            while True:
                need = self._framing.need()
                chunk = allocate(need or _ANY_BYTES)
                frame = self._framing.feed(chunk[: self._fill(chunk, need, deadline)])
                if frame is not None:
                    self._heard = True
                    self._contact.answered()
                    return frame
        except TimeoutError:
            if not self._heard and self._contact.left(_clock.monotonic()) <= 0.0:
                raise self._break(self._contact.error()) from None
            raise self._break(timed_out(self._endpoint, timeout_s)) from None
        except OSError as error:
            raise self._break(self._broken(error)) from None
        except PenstockError as error:
            if error.node is None:
                error.node = str(self._endpoint)
            raise self._break(error) from None
        except BaseException as error:  # Ctrl-C in the middle of a frame: later bytes would be misread
            self._break(lost(self._endpoint, repr(error)))
            raise

    def _fill(self, chunk: memoryview, need: int, deadline: float) -> int:
        """Receive ``need`` bytes, or any number if that is 0; returns how many."""
        filled = 0
        while filled < (need or 1):
            count = self._receive(chunk[filled:], deadline)
            if count == 0:
                raise self._broken("the peer closed it")
            filled += count
            self._any_came = True
        return filled

    def _receive(self, into: memoryview, deadline: float) -> int:
        """Wait for bytes, and log a silence now and then."""
        while True:
            now = _clock.monotonic()
            if now >= deadline:
                raise TimeoutError
            self._socket.settimeout(min(deadline - now, self._silence.look(now)))
            try:
                count = self._socket.recv_into(into)
            except TimeoutError:
                continue
            self._silence.heard(_clock.monotonic())
            return count

    def _broken(self, why: object) -> PenstockError:
        return (lost if self._any_came else hung_up)(self._endpoint, why)

    def _break(self, error: PenstockError) -> PenstockError:
        if self._end is None and not self._heard:
            self._contact.failed(self._endpoint, error)
        self._ended(error)
        return error

    def _ended(self, error: PenstockError) -> None:
        if self._end is None:
            self._end = error
            self._stop.drop(self._socket)
            self._socket.close()


T = TypeVar("T")
State = TypeVar("State")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing but a BlockingChannel.

    Raises UsageError if it suspends, because then it has awaited something else.
    """
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    work.close()
    raise UsageError(
        "a coroutine suspended under the blocking transport", hint="It awaits something not of its channel."
    )


class BlockingChannel(Generic[State]):
    """``penstock.interfaces.channel.Channel`` over plain sockets. ``contact`` as for `AsyncioChannel`."""

    def __init__(
        self,
        dialect: Dialect[State],
        *,
        options: TransportOptions | None = None,
        stop: Stop | None = None,
        contact: FirstContact | None = None,
    ) -> None:
        self._contact = contact or FirstContact()
        self._dialect = dialect
        self._options = options or TransportOptions()
        self._stop = stop or Stop()
        self._backoff = EndpointBackoff(self._options)
        self._away = UnreachableNodeLog(self._options.tried_until, self._options.whose)
        self._links: dict[tuple[Endpoint, str], OpenLink[BlockingConnection, State]] = {}
        self._closed = False

    async def link(self, endpoint: Endpoint, lane: str = "") -> Link[State]:
        """Return the lane's open link, or open one; waits while the endpoint is in backoff."""
        return await self.reach(endpoint, lane, within_s=self._options.connect_timeout_s)

    async def reach(self, endpoint: Endpoint, lane: str = "", *, within_s: float) -> Link[State]:
        """As ``link``; an attempt that takes longer than ``within_s`` is given up."""
        if self._closed:
            raise Closed("the channel is closed")
        self._stop.check()
        link = self._links.get((endpoint, lane))
        if link is not None:
            if link.connection.usable(self._options.idle_timeout_s):
                return link
            link.connection.close()
        now = _clock.monotonic()
        self._contact.asked(endpoint)
        if (until := self._contact.begin(now)) <= now:
            self._stop.pause(REFUSAL_S)
            raise self._contact.error()
        await self.sleep(self._backoff.delay(endpoint, now))
        begun = _clock.monotonic()
        try:
            limit_s = min(within_s, self._options.connect_timeout_s, max(until - begun, 0.001))
            link = self._links[endpoint, lane] = await self._open(endpoint, limit_s)
        except BaseException as error:
            if self._stop.said:
                raise  # an attempt that was stopped says nothing about the endpoint
            now = _clock.monotonic()
            self._backoff.failed(endpoint, now, random.random(), error)
            if isinstance(error, PenstockError):
                self._away.failed(endpoint, begun, now, error.message)
                self._contact.failed(endpoint, error)
                if self._contact.left(now) <= 0.0:
                    raise self._contact.error() from None
            raise
        self._backoff.succeeded(endpoint)
        self._away.answered(endpoint, _clock.monotonic())
        return link

    def prompt(self, endpoint: Endpoint, lane: str = "") -> None:
        """Return None: every call of this channel waits."""
        del endpoint, lane

    def rests(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint is still in backoff."""
        return self._backoff.delay(endpoint, _clock.monotonic()) > 0

    def trouble(self, endpoint: Endpoint) -> PenstockError | None:
        """The error of the last attempt to connect to it."""
        return self._backoff.troubles.get(endpoint)

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
        """Run all one after the other; results or exceptions in order."""
        results: list[T | BaseException] = []
        for each in work:
            try:
                results.append(await each)
            except FirstContactTimeout as error:
                # Running concurrently, all of them would have ended now, and none would have waited longer.
                results.extend([error] * (len(work) - len(results)))
                for other in work[work.index(each) + 1 :]:
                    other.close()
                break
            except Exception as error:
                self._stop.check()
                results.append(error)
        return results

    async def any_of(self, requests: Sequence[Pending], *, within_s: float) -> None:
        """Wait for the first of these, however long it takes; without any, wait ``within_s``."""
        first = next(iter(requests), None)
        if first is None:
            await self.sleep(within_s)
        elif isinstance(first, BlockingPending) and not any(each.answered for each in requests):
            first.wait()

    async def sleep(self, seconds: float) -> None:
        """Block, but not beyond the deadline for the first answer; raises that deadline's error."""
        left = self._contact.left(_clock.monotonic())
        self._stop.pause(min(seconds, left))
        if left <= seconds:
            raise self._contact.error()

    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return _clock.monotonic()

    def random(self) -> float:
        """Uniform in [0, 1)."""
        return random.random()

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for link in self._links.values():
            link.connection.close()
        self._links.clear()

    async def _open(self, endpoint: Endpoint, timeout_s: float) -> OpenLink[BlockingConnection, State]:
        """Connect, with TLS if configured, and greet; all within ``timeout_s``."""
        until = _clock.monotonic() + timeout_s
        try:
            sock = self._connect(endpoint, timeout_s)
        except TimeoutError as error:
            why = error if error.errno else f"not ready within {timeout_s:g} s"
            raise no_connection(endpoint, why) from None
        except NO_ADDRESS as error:
            raise no_connection(endpoint, error) from None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._options.ssl is not None:
                sock = self._secured(sock, endpoint, self._options.ssl)
            self._contact.connected(endpoint)
            connection = BlockingConnection(
                endpoint, sock, self._dialect, self._away, self._stop, greeted_until=until, contact=self._contact
            )
            state = await self._dialect.greet(connection)
            connection.greeted()
            return OpenLink(connection, state)
        except RequestTimeout:
            self._let_go(sock)
            raise silent(endpoint, timeout_s) from None
        except TimeoutError:
            self._let_go(sock)
            raise no_connection(endpoint, f"no TLS within {timeout_s:g} s", tls=True) from None
        except OSError as error:
            self._let_go(sock)
            raise no_connection(endpoint, error, tls=self._options.ssl is not None) from None
        except BaseException:
            self._let_go(sock)
            raise

    def _connect(self, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        """As ``socket.create_connection``, whose attempts cannot be stopped."""
        failure = OSError("its name leads to no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM
        ):
            try:
                return self._connected(socket.socket(family, kind, protocol), address, timeout_s)
            except OSError as error:
                failure = error
        raise failure

    def _connected(self, sock: socket.socket, address: Any, timeout_s: float) -> socket.socket:
        try:
            self._stop.hold(sock)
            sock.settimeout(timeout_s)
            sock.connect(address)
            self._stop.check()  # a socket that was shut down meanwhile may report that it is connected
        except BaseException:
            self._let_go(sock)
            raise
        return sock

    def _secured(self, plain: socket.socket, endpoint: Endpoint, tls: ssl.SSLContext) -> socket.socket:
        name = self._options.tls_server_name or endpoint.host
        sock = tls.wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
        self._stop.drop(plain)
        try:
            self._stop.hold(sock)
            sock.do_handshake()
        except BaseException:
            self._let_go(sock)
            raise
        return sock

    def _let_go(self, sock: socket.socket) -> None:
        self._stop.drop(sock)
        sock.close()
