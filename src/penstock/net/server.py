"""A node's listener: accepts clients of one front and bounds what they can take together.

Which address to listen on, and starting and stopping the front itself, are the node's business: ``front.start()``
before ``serve``, ``front.stop()`` (which answers what is parked) before or while ``Listener.close()`` waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from penstock.model import Endpoint
from penstock.net._budget import Budget
from penstock.net._server_connection import ServerConnection
from penstock.net._taps import Handle, Tap
from penstock.net.network import Listening, Network, Tcp
from penstock.net.options import ListenerOptions
from penstock.net.serving_clock import ServingClock
from penstock.seams.front import Opens
from penstock.seams.shares import divided

__all__ = ["Budget", "Handle", "Listener", "Tap", "serve"]

_log = logging.getLogger("penstock.node")
_CLOSE_SECONDS = 3.0
_TOLD_EVERY_S = 60.0
_LOOKS = 20
"""Within an idle timeout. A connection notes that something came, and no time: it is let go up to two looks late."""


class Listener:
    """An open door of a node. Made by ``serve``."""

    def __init__(self, options: ListenerOptions, clock: ServingClock | None) -> None:
        self._options = options
        self.clock = clock or ServingClock(asyncio.get_running_loop())
        self._clock_is_shared = clock is not None
        self._connections: set[ServerConnection] = set()
        self._most = divided(options.max_connections, options.address_percent)
        self._from: dict[str, int] = {}
        self._listening: list[Listening] = []
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self._open_at: Callable[[Endpoint, Opens], Awaitable[None]] | None = None
        self._empty: asyncio.Future[None] | None = None
        self.accepted = self.refused = 0
        """Clients that were let in, and that were not, since the node listens."""
        self._gone_received = self._gone_sent = 0
        self._told = self._misdirected = -_TOLD_EVERY_S

    @property
    def endpoint(self) -> Endpoint:
        """Where clients connect; the port is real also where 0 was asked for."""
        return self._listening[0].endpoint

    @property
    def connections(self) -> int:
        """Clients connected now."""
        return len(self._connections)

    @property
    def received(self) -> int:
        """Bytes that came from clients."""
        return self._gone_received + sum(each.received for each in self._connections)

    @property
    def sent(self) -> int:
        """Bytes that went to clients."""
        return self._gone_sent + sum(each.sent for each in self._connections)

    async def open_beside(self, port: int, who: Opens) -> None:
        """Serve ``who`` at a further port of the same host. Raises OSError where it cannot be had."""
        if self._open_at is None:
            raise OSError("the node stops")
        await self._open_at(Endpoint(self.endpoint.host, port), who)

    def stop_accepting(self) -> None:
        """No new clients; those connected are served on."""
        self._open_at = None
        for each in self._listening:
            each.close()

    async def close(self, drain_s: float = 1.0) -> None:
        """Stop accepting and reading, let requests in progress finish for ``drain_s`` seconds, close every client."""
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
        if not self._clock_is_shared:
            self.clock.stop()
        connections = list(self._connections)
        for connection in connections:
            connection.stop_reading()
        tasks = {task for connection in connections for task in connection.tasks}
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=drain_s)
        await self._hang_up_all()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hang_up_all(self) -> None:
        for connection in list(self._connections):
            connection.hang_up()
        if not self._connections:
            return
        self._empty = self._loop.create_future()
        try:
            await asyncio.wait_for(self._empty, _CLOSE_SECONDS)
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()

    # What ServerConnection calls.

    def admit(self, connection: ServerConnection) -> bool:
        """Count a new connection; False if there are too many."""
        host, most = connection.host, self._most
        from_host = self._from.get(host, 0)
        if len(self._connections) >= most.total:
            return self._refused(f"{len(self._connections)} connections are open already, and no more are allowed")
        if from_host >= most.address:
            return self._refused(
                f"{from_host} connections from {host} are open, its share of max_connections (address_share_percent)"
            )
        self._from[host] = from_host + 1
        self._connections.add(connection)
        self.accepted += 1
        return True

    def _refused(self, why: str) -> bool:
        self.refused += 1
        if self._loop.time() - self._told >= _TOLD_EVERY_S:
            self._told = self._loop.time()
            _log.warning("refusing clients (%d so far): %s", self.refused, why)
        return False

    def tells_of_misdirected(self) -> bool:
        """See `Owner`."""
        due = self._loop.time() - self._misdirected >= _TOLD_EVERY_S
        if due:
            self._misdirected = self._loop.time()
        return due

    def forget(self, connection: ServerConnection) -> None:
        """A connection is gone."""
        if connection in self._connections:
            self._connections.discard(connection)
            left = self._from.pop(connection.host) - 1
            if left:
                self._from[connection.host] = left
            self._gone_received += connection.received
            self._gone_sent += connection.sent
        if self._empty is not None and not self._connections and not self._empty.done():
            self._empty.set_result(None)

    def opened(self, listening: Listening) -> None:
        """Called by ``serve``, first with its ``endpoint``."""
        self._listening.append(listening)
        if self._sweep is None:
            self._watch_idle()

    def _watch_idle(self) -> None:
        limit = self._options.idle_timeout_s
        now = self.clock.time()
        for connection in list(self._connections):
            if connection.idle_since(now) > limit:
                connection.give_up()
        self._sweep = self._loop.call_later(limit / _LOOKS, self._watch_idle)


async def serve(
    front: Opens,
    endpoint: Endpoint,
    *,
    options: ListenerOptions | None = None,
    network: Network | None = None,
    tap: Tap | None = None,
    budget: Budget | None = None,
    beside: Mapping[int, Opens] | None = None,
    clock: ServingClock | None = None,
) -> Listener:
    """Listen on ``endpoint`` (port 0: any free one) and run a Session of ``front`` for each client.

    ``network`` None is TCP; ``tap`` sees each frame and answer, for fault injection; listeners of one node share a
    ``budget``. ``beside``: what else is served, at these ports of the same host. ``clock``: the node's, for
    deadlines of clients; None: one of this listener's. Raises OSError where an address cannot be listened on.
    """
    options = options or ListenerOptions()
    network = network or Tcp(ssl=options.ssl)
    listener = Listener(options, clock)
    shared = budget or Budget(options.memory_bytes)
    shared.now = listener.clock.time

    async def open_at(at: Endpoint, who: Opens) -> None:
        def connected() -> ServerConnection:
            return ServerConnection(listener, who, options, tap, shared)

        listener.opened(await network.listen(connected, at, backlog=options.backlog))

    listener._open_at = open_at
    try:
        await open_at(endpoint, front)
        for port, who in (beside or {}).items():
            await open_at(Endpoint(endpoint.host, port), who)
    except BaseException:
        await listener.close(0)
        raise
    return listener
