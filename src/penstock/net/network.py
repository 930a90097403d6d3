"""Network: connecting and listening over TCP, on sockets shared by several processes, or in memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.model import Endpoint

if TYPE_CHECKING:
    import ssl

__all__ = [
    "Listening",
    "MemoryNetwork",
    "Network",
    "ProtocolFactory",
    "SharedListenSocket",
    "Tcp",
    "TcpThrough",
    "listen_shared",
]

ProtocolFactory = Callable[[], asyncio.BufferedProtocol]


class Listening(Protocol):
    """An open listener: its real address (port 0 has been replaced), and a way to stop accepting."""

    @property
    def endpoint(self) -> Endpoint: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Byte streams between endpoints. Both calls raise OSError if the address cannot be used."""

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        """Returns once ``connection_made`` of the new protocol has run."""
        ...

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening: ...


class _TcpListening(Struct, frozen=True):
    endpoint: Endpoint
    server: asyncio.Server

    def close(self) -> None:
        self.server.close()


@dataclass(frozen=True, slots=True)
class Tcp:
    """The real network; asyncio sets TCP_NODELAY on every connection. With ``ssl`` it uses TLS."""

    ssl: ssl.SSLContext | None = None
    tls_server_name: str | None = None

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        name = self.tls_server_name if self.ssl is not None else None
        await loop.create_connection(factory, endpoint.host, endpoint.port, ssl=self.ssl, server_hostname=name)

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(factory, endpoint.host, endpoint.port, ssl=self.ssl, backlog=backlog)
        host, port = server.sockets[0].getsockname()[:2]
        return _TcpListening(Endpoint(host, port), server)


# Listening sockets for several processes of one node that share an address.
#
# Each process has its own socket at the shared address (SO_REUSEPORT), and the system spreads new connections over
# them. The parent process keeps them open, so that clients of a process that is being restarted wait in its socket.
# Each process also has a socket at a port of its own, where the others reach it.
_WAITING = 1_024
"""Connections that may wait in a socket; the process that accepts them sets its own value."""


class SharedListenSocket(Struct, frozen=True):
    """One process's listening sockets for one listener."""

    shared: socket.socket
    own: socket.socket
    further: Sequence[socket.socket] = ()
    """Sockets at further ports, which are shared as well."""

    @property
    def address(self) -> Endpoint:
        """The address that all processes share."""
        return _endpoint(self.shared)

    @property
    def own_address(self) -> Endpoint:
        """This process's own address."""
        return _endpoint(self.own)

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """All sockets."""
        return [self.shared, self.own, *self.further]

    def close(self) -> None:
        """Close all sockets in this process."""
        for each in self.sockets:
            each.close()


def listen_shared(at: Endpoint, count: int, first_port: int, further: Sequence[int] = ()) -> list[SharedListenSocket]:
    """Make the sockets for ``count`` processes.

    ``first_port``: the first of the processes' own ports, which are consecutive; 0: any. ``further``: more ports
    that all share. Raises ConfigError if the address is in use, or the system has no such sockets; OSError.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError("this system cannot share a port between processes", hint="Leave --processes out")
    family, *_, where = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with contextlib.ExitStack() as opened:

        def listening(where: tuple[Any, ...], option: int) -> socket.socket:
            made = opened.enter_context(_bound(family, where, option))
            made.listen(_WAITING)
            return made

        def shared(port: int) -> list[socket.socket]:
            # Another node of this user that shares its port would share it with us, too. This bind detects it.
            with _bound(family, (where[0], port, *where[2:]), socket.SO_REUSEADDR) as first:
                there = first.getsockname()
            return [listening(there, socket.SO_REUSEPORT) for _ in range(count)]

        main, sides = shared(int(where[1])), [shared(port) for port in further]
        own_ports = range(first_port, first_port + count) if first_port else [0] * count
        owns = [listening((where[0], port, *where[2:]), socket.SO_REUSEADDR) for port in own_ports]
        opened.pop_all()
    return [SharedListenSocket(main[number], owns[number], [side[number] for side in sides]) for number in range(count)]


class TcpThrough(Tcp):
    """The real network, listening on sockets that exist already."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        super().__init__()
        object.__setattr__(self, "_sockets", {_endpoint(each): each for each in sockets})

    _sockets: dict[Endpoint, socket.socket]

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        given = self._sockets.get(endpoint)
        if given is None:
            return await super().listen(factory, endpoint, backlog=backlog)
        server = await asyncio.get_running_loop().create_server(factory, sock=given, backlog=backlog)
        return _Through(endpoint, server)


class _Through(Struct, frozen=True):
    endpoint: Endpoint
    server: asyncio.Server

    def close(self) -> None:
        self.server.close()


def _bound(family: int, where: tuple[object, ...], option: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
    except BaseException:
        made.close()
        raise
    return made


def _endpoint(of: socket.socket) -> Endpoint:
    host, port = of.getsockname()[:2]
    return Endpoint(host, port)


# The network in memory: listeners and connections inside one process and one event loop, without sockets.
#
# The transports behave as asyncio's do where it matters: pausing, high-water marks, half-written data at a close. Time
# passes only through the loop, so a loop with virtual time makes the whole network virtual.
_HIGH_WATER_BYTES = 64 * 1024
_FIRST_PORT = 40_000


class MemoryNetwork:
    """A `Network` in memory. ``latency_s`` is called once per written buffer."""

    def __init__(self, latency_s: Callable[[], float] | None = None) -> None:
        self._latency_s = latency_s or (lambda: 0.0)
        self._factories: dict[Endpoint, ProtocolFactory] = {}
        self._last_port = _FIRST_PORT

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        """Raises ConnectionRefusedError where nothing listens."""
        accept = self._factories.get(endpoint)
        if accept is None:
            raise ConnectionRefusedError(f"nothing listens on {endpoint} in memory")
        client, server = factory(), accept()
        near = _MemoryTransport(client, Endpoint("memory", self._port()), endpoint, self._latency_s)
        far = _MemoryTransport(server, endpoint, near.local, self._latency_s)
        near.other, far.other = far, near
        server.connection_made(far)
        client.connection_made(near)

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        """Raises OSError where something listens already."""
        del backlog
        if endpoint.port == 0:
            endpoint = Endpoint(endpoint.host, self._port())
        if endpoint in self._factories:
            raise OSError(f"something listens on {endpoint} in memory already")
        self._factories[endpoint] = factory
        return _MemoryListening(endpoint, self)

    def forget(self, endpoint: Endpoint) -> None:
        """Stop accepting there; open connections stay."""
        self._factories.pop(endpoint, None)

    def _port(self) -> int:
        self._last_port += 1
        return self._last_port


class _MemoryListening(Struct, frozen=True):
    endpoint: Endpoint
    network: MemoryNetwork

    def close(self) -> None:
        self.network.forget(self.endpoint)


class _MemoryTransport(asyncio.Transport):
    """One end. ``_coming`` is on its way here; ``_inbox`` has arrived and is unread.

    Both count as unsent at the other end.
    """

    other: _MemoryTransport

    def __init__(
        self, protocol: asyncio.BufferedProtocol, local: Endpoint, remote: Endpoint, latency_s: Callable[[], float]
    ) -> None:
        super().__init__({"peername": (remote.host, remote.port), "sockname": (local.host, local.port)})
        self.local = local
        self._protocol = protocol
        self._latency_s = latency_s
        self._loop = asyncio.get_running_loop()
        self._coming: deque[memoryview | None] = deque()
        self._inbox: deque[memoryview] = deque()
        self._inbox_bytes = 0
        self._high, self._low = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._last_due = 0.0

    # Called by protocols.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not len(data):
            return
        self.other._inbox_bytes += len(data)
        self._send(memoryview(bytes(data)), self._latency_s())
        if self.other._inbox_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.other._inbox_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._loop.call_soon(self._take)

    def is_reading(self) -> bool:
        return not self._reading_paused

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send(None, 0.0)

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._end, None)

    def get_protocol(self) -> Any:
        return self._protocol

    # Internals.

    def _send(self, data: memoryview | None, latency_s: float) -> None:
        """Deliver ``data``, or the end (None), after ``latency_s``, and never before earlier data."""
        # The queue keeps the order, because timers for the same moment fire in any order.
        self._last_due = max(self._last_due, self._loop.time() + latency_s)
        self.other._coming.append(data)
        self._loop.call_at(self._last_due, self.other._arrive)

    def _arrive(self) -> None:
        data = self._coming.popleft()
        if data is None:
            self.other._end(None)
        else:
            self._inbox.append(data)
            self._take()

    def _take(self) -> None:
        while self._inbox and not self._reading_paused and not self._closing:
            data = self._inbox.popleft()
            space = memoryview(self._protocol.get_buffer(len(data)))
            count = min(len(data), len(space))
            space[:count] = data[:count]
            if count < len(data):
                self._inbox.appendleft(data[count:])
            self._inbox_bytes -= count
            self._protocol.buffer_updated(count)
        self.other._unblock()

    def _unblock(self) -> None:
        if self._writing_paused and self.other._inbox_bytes <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _end(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)
        if not self.other._closing:
            self.other._closing = True
            self._loop.call_soon(self.other._end, error)
