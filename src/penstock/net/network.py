"""Network: what connects and listens, so that the same channel and the same listener run over TCP and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock._dataclasses import dataclass
from penstock.model import Endpoint

if TYPE_CHECKING:
    import ssl

__all__ = ["Listening", "Network", "ProtocolFactory", "Tcp"]

ProtocolFactory = Callable[[], asyncio.BufferedProtocol]


class Listening(Protocol):
    """An open listener: the address it really has (port 0 was replaced) and a way to stop accepting."""

    @property
    def endpoint(self) -> Endpoint: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Streams of bytes between endpoints. Both calls raise OSError when the address is of no use."""

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        """Returns once ``connection_made`` of the new protocol has run."""
        ...

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening: ...


@dataclass(frozen=True, slots=True)
class _TcpListening:
    endpoint: Endpoint
    server: asyncio.Server

    def close(self) -> None:
        self.server.close()


@dataclass(frozen=True, slots=True)
class Tcp:
    """The real network; asyncio sets TCP_NODELAY on every connection. TLS is used where ``ssl`` is given."""

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
