"""BlockingChannel: a protocol's network over plain sockets, without event loop or thread.

Nothing suspends: each call has finished when it returns, so ``run`` drives a whole operation with one ``send(None)``.
For one thread at a time, but for its `Stop`. What must not live here: anything that would need a second task.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock import _clock
from penstock.errors import Closed, FirstContactTimeout, PenstockError, RequestTimeout, UsageError
from penstock.model import Endpoint
from penstock.net._away import Away
from penstock.net._backoff import Backoff
from penstock.net._blocking_connection import BlockingConnection, BlockingPending
from penstock.net._links import NO_ADDRESS, OpenLink
from penstock.net._reasons import no_connection, silent
from penstock.net.first_contact import REFUSAL_S, FirstContact
from penstock.net.options import TransportOptions
from penstock.net.stopping import Stop
from penstock.seams.channel import Dialect, Link, Pending

if TYPE_CHECKING:
    import ssl

__all__ = ["BlockingChannel", "run"]

T = TypeVar("T")
State = TypeVar("State")


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing but a BlockingChannel.

    Raises UsageError if it suspends: it waited for something else.
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
    """``penstock.seams.channel.Channel`` over plain sockets. ``contact`` as for `AsyncioChannel`."""

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
        self._backoff = Backoff(self._options)
        self._away = Away(self._options.tried_until, self._options.whose)
        self._links: dict[tuple[Endpoint, str], OpenLink[BlockingConnection, State]] = {}
        self._closed = False

    async def link(self, endpoint: Endpoint, lane: str = "") -> Link[State]:
        """The open link of this lane, or a new one; waits while the endpoint is backed off from."""
        return await self.reach(endpoint, lane, within_s=self._options.connect_timeout_s)

    async def reach(self, endpoint: Endpoint, lane: str = "", *, within_s: float) -> Link[State]:
        """As ``link``; an attempt that takes longer than that is given up."""
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
                raise  # which says nothing about the endpoint
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
        """Here everything waits."""
        del endpoint, lane

    def rests(self, endpoint: Endpoint) -> bool:
        """Whether it is too early to try again to connect."""
        return self._backoff.delay(endpoint, _clock.monotonic()) > 0

    def trouble(self, endpoint: Endpoint) -> PenstockError | None:
        """What the last attempt to connect to it has met."""
        return self._backoff.troubles.get(endpoint)

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
        """Run all, one after the other; results or exceptions in order."""
        results: list[T | BaseException] = []
        for each in work:
            try:
                results.append(await each)
            except FirstContactTimeout as error:
                # Side by side all of them would have ended now, and none would have waited for longer.
                results.extend([error] * (len(work) - len(results)))
                for other in work[work.index(each) + 1 :]:
                    other.close()
                break
            except Exception as error:
                self._stop.check()
                results.append(error)
        return results

    async def any_of(self, requests: Sequence[Pending], *, within_s: float) -> None:
        """Wait for the first of these, however long it takes; without any, for that time."""
        first = next(iter(requests), None)
        if first is None:
            await self.sleep(within_s)
        elif isinstance(first, BlockingPending) and not any(each.answered for each in requests):
            first.wait()

    async def sleep(self, seconds: float) -> None:
        """Block for a while; not beyond the deadline for the first answer, which is raised then."""
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
        """Connect, with TLS, and greet; all of it within the time."""
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
        """As ``socket.create_connection``, whose attempts nobody could stop."""
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
            self._stop.check()  # a socket that was shut down in the middle may call itself connected
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
