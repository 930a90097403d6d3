"""AsyncioChannel: a protocol's network on an event loop. Calls suspend, and several links work concurrently.

`ChannelStats` are the traffic statistics of a channel's connections.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from penstock.errors import Closed, PenstockError
from penstock.interfaces.channel import Dialect, Link, Pending
from penstock.model import Endpoint
from penstock.net.asyncio_connection import AsyncioConnection, AsyncioPending
from penstock.net.connecting import (
    NO_ADDRESS,
    REFUSAL_S,
    EndpointBackoff,
    FirstContact,
    OpenLink,
    TransportOptions,
    UnreachableNodeLog,
    no_connection,
    silent,
)
from penstock.net.network import Network, Tcp

__all__ = ["AsyncioChannel", "ChannelStats"]


# Statistics are added up on request.
class ChannelStats(Struct):
    """``connections`` are open now and have ``under_way`` requests; the other fields count from the beginning."""

    connections: int = 0
    under_way: int = 0
    opened: int = 0
    failed: int = 0
    received: int = 0
    sent: int = 0


T = TypeVar("T")
State = TypeVar("State")
_CLOSE_SECONDS = 2.0


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class AsyncioChannel(Generic[State]):
    """``penstock.interfaces.channel.Channel`` over asyncio. Create it inside the loop that it will run on.

    ``network`` None is TCP with ``options.ssl``. ``random_number`` and ``wall_clock_ms`` are replaced where time is
    simulated. ``contact`` is shared by all channels of a client; None: the first answer has no deadline of its
    own.
    """

    def __init__(
        self,
        dialect: Dialect[State],
        *,
        options: TransportOptions | None = None,
        network: Network | None = None,
        random_number: Callable[[], float] = random.random,
        wall_clock_ms: Callable[[], int] = _wall_clock_ms,
        contact: FirstContact | None = None,
    ) -> None:
        self._contact = contact or FirstContact()
        self._dialect = dialect
        self._options = options or TransportOptions()
        self._network = network or Tcp(ssl=self._options.ssl, tls_server_name=self._options.tls_server_name)
        self._random_number = random_number
        self._wall_clock_ms = wall_clock_ms
        self._loop = asyncio.get_running_loop()
        self._backoff = EndpointBackoff(self._options)
        self._away = UnreachableNodeLog(self._options.tried_until, self._options.whose)
        self._slots: dict[tuple[Endpoint, str], _Slot[State]] = {}
        self._connections: set[AsyncioConnection] = set()
        self._gone = ChannelStats()
        self._closed = False

    def carried(self) -> ChannelStats:
        """Statistics of all connections so far, closed ones included."""
        here, gone = self._connections, self._gone
        return ChannelStats(
            len(here),
            sum(each.under_way for each in here),
            gone.opened,
            gone.failed,
            gone.received + sum(each.received for each in here),
            gone.sent + sum(each.sent for each in here),
        )

    async def link(self, endpoint: Endpoint, lane: str = "") -> Link[State]:
        """Return the lane's open link, or open one; waits while the endpoint is in backoff.

        Callers get the link in the order of their calls, even a caller that asks just as it gets ready. An idempotent
        producer relies on its first requests staying in order.
        """
        if self._closed:
            raise Closed("the channel is closed")
        slot = self._slots.setdefault((endpoint, lane), _Slot())
        if not slot.asking and slot.link is not None and slot.link.connection.usable(self._options.idle_timeout_s):
            return slot.link
        slot.asking += 1
        try:
            while not self._contact.made:
                if (link := await self._first_link(endpoint, slot)) is not None:
                    return link
            return await self._link(endpoint, slot)
        finally:
            slot.asking -= 1

    async def _first_link(self, endpoint: Endpoint, slot: _Slot[State]) -> Link[State] | None:
        """Open a link before any server has answered; None if one answered meanwhile, so that there is more time."""
        until = self._contact.begin(now := self._loop.time())
        self._contact.asked(endpoint)
        if until <= now:
            await asyncio.sleep(REFUSAL_S)
        else:
            try:
                async with asyncio.timeout_at(until) as limit:
                    return await self._link(endpoint, slot)
            except TimeoutError:
                if not limit.expired():
                    raise
        if self._contact.made:
            return None
        raise self._contact.error()

    def prompt(self, endpoint: Endpoint, lane: str = "") -> OpenLink[AsyncioConnection, State] | None:
        """Return the lane's open link if no caller is waiting for it, or to write on it."""
        slot = self._slots.get((endpoint, lane))
        if slot is None or slot.asking or slot.link is None:
            return None
        return slot.link if slot.link.connection.prompt(self._options.idle_timeout_s) else None

    async def _link(self, endpoint: Endpoint, slot: _Slot[State]) -> Link[State]:
        failures = slot.failures
        async with slot.turn:
            if slot.link is not None:
                if slot.link.connection.usable(self._options.idle_timeout_s):
                    return slot.link
                slot.link.connection.close()
            if slot.failures != failures and slot.failure is not None:
                raise slot.failure  # the attempt that this caller waited for has failed
            if slot.opening is None:
                # A separate task, so that cancelling the first caller does not cancel the attempt for the others.
                slot.opening = self._loop.create_task(self._open(endpoint, slot))
                slot.opening.add_done_callback(slot.opened)
            opening = slot.opening
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                # close() cancels only the attempt. A loop that ends cancels the attempt and all its callers. A caller
                # that took this for an error and went on would keep `asyncio.run` from returning.
                caller = asyncio.current_task()
                if not opening.cancelled() or (caller is not None and caller.cancelling()):
                    raise
                raise Closed("the channel was closed") from None

    async def reach(self, endpoint: Endpoint, lane: str = "", *, within_s: float) -> Link[State]:
        """As ``link``, but wait at most ``within_s``; the attempt continues."""
        try:
            async with asyncio.timeout(within_s):
                return await self.link(endpoint, lane)
        except TimeoutError:
            raise no_connection(endpoint, f"not ready within {within_s:g} s") from None

    def rests(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint is still in backoff."""
        return self._backoff.anywhere and self._backoff.delay(endpoint, self._loop.time()) > 0

    def trouble(self, endpoint: Endpoint) -> PenstockError | None:
        """The error of the last attempt to connect to it."""
        return self._backoff.troubles.get(endpoint)

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
        """Run all concurrently; results or exceptions in order."""
        return await asyncio.gather(*work, return_exceptions=True)

    async def any_of(self, requests: Sequence[Pending], *, within_s: float) -> None:
        """Wait until one of these is answered, at most ``within_s``."""
        futures = [each.future for each in requests if isinstance(each, AsyncioPending)]
        if not futures:
            await asyncio.sleep(within_s)
        elif not any(future.done() for future in futures):
            await asyncio.wait(futures, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the deadline for the first answer; raises that deadline's error."""
        left = self._contact.left(self._loop.time())
        await asyncio.sleep(min(seconds, left))
        if left <= seconds and not self._contact.made:
            raise self._contact.error()

    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC."""
        return self._wall_clock_ms()

    def monotonic(self) -> float:
        """The loop's clock, seconds."""
        return self._loop.time()

    def random(self) -> float:
        """Uniform in [0, 1)."""
        return self._random_number()

    async def close(self) -> None:
        """Close all connections; returns when they are gone."""
        self._closed = True
        opening = [slot.opening for slot in self._slots.values() if slot.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        connections = list(self._connections)
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([connection.gone for connection in connections], timeout=_CLOSE_SECONDS)
        for connection in connections:
            connection.abort()
        self._slots.clear()

    async def _open(self, endpoint: Endpoint, slot: _Slot[State]) -> OpenLink[AsyncioConnection, State]:
        await asyncio.sleep(self._backoff.delay(endpoint, self._loop.time()))
        begun = self._loop.time()
        connection = AsyncioConnection(endpoint, self._dialect, self._options, self._away, self._contact)
        self._connections.add(connection)
        connection.gone.add_done_callback(lambda _: self._forget(connection, slot))
        limit_s = self._options.connect_timeout_s
        connected = False
        try:
            async with asyncio.timeout(limit_s):
                await self._network.connect(lambda: connection, endpoint)
                connected = True
                self._contact.connected(endpoint)
                state = await self._dialect.greet(connection)
        except BaseException as error:
            connection.abort()
            self._gone.failed += 1
            self._connections.discard(connection)
            failure: BaseException = error
            if isinstance(error, TimeoutError) and not error.errno:
                why = f"not ready within {limit_s:g} s"
                failure = silent(endpoint, limit_s) if connected else no_connection(endpoint, why)
            elif isinstance(error, NO_ADDRESS):
                failure = no_connection(endpoint, error, tls=self._options.ssl is not None)
            self._backoff.failed(endpoint, self._loop.time(), self._random_number(), failure)
            if isinstance(failure, PenstockError):
                self._away.failed(endpoint, begun, self._loop.time(), failure.message)
                self._contact.failed(endpoint, failure)
            if failure is error:
                raise
            raise failure from None  # its text contains the system's error
        self._gone.opened += 1
        self._backoff.succeeded(endpoint)
        self._away.answered(endpoint, self._loop.time())
        slot.link = OpenLink(connection, state)
        return slot.link

    def _forget(self, connection: AsyncioConnection, slot: _Slot[State]) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._gone.received += connection.received
            self._gone.sent += connection.sent
        if slot.link is not None and slot.link.connection is connection:
            slot.link = None


class _Slot(Generic[State]):
    """One lane: its link, the attempt to open one, and the callers that wait for it."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.asking = 0
        self.link: OpenLink[AsyncioConnection, State] | None = None
        self.opening: asyncio.Task[OpenLink[AsyncioConnection, State]] | None = None
        self.failures = 0
        self.failure: BaseException | None = None

    def opened(self, task: asyncio.Task[OpenLink[AsyncioConnection, State]]) -> None:
        """Note the result of the attempt."""
        self.opening = None
        self.failure = None if task.cancelled() else task.exception()
        self.failures += self.failure is not None
