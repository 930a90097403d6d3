"""A broker that answers what it is told to, whatever it is asked, at every address: for the client's fuzz target."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import cast

from penstock.config import ClientConfig, OptionValue
from penstock.interfaces import ChannelFactory, LogClient, WireProtocol
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import Listening, MemoryNetwork, Network, ProtocolFactory
from penstock.protocols import protocol, register

ADDRESS = "liar://127.0.0.1:9092"
SCHEME = "liar"


class Liar(asyncio.BufferedProtocol):
    """A connection's far end. ``script`` is shared by all connections; when it is over everybody is hung up on.

    ``shuffled``: some answers name another request than the one they answer, or another size than they have.
    """

    def __init__(self, script: deque[bytes], *, shuffled: bool) -> None:
        self._script = script
        self._shuffled = shuffled
        self._heard = bytearray()
        self._space = bytearray(64 * 1024)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self._heard += self._space[:nbytes]
        while len(self._heard) >= 4 and len(self._heard) >= 4 + (size := int.from_bytes(self._heard[:4], "big")):
            request = bytes(self._heard[4 : 4 + size])
            del self._heard[: 4 + size]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        if not self._script:
            self._transport.close()
            return
        body = self._script.popleft()
        chance = zlib.crc32(body) if self._shuffled else 1
        if chance % 8:
            body = request[4:8] + body[4:]
        size = len(body) if chance % 7 else (chance >> 8) % (2 * len(body) + 2)
        self._transport.write(size.to_bytes(4, "big") + body)


class Everywhere:
    """A network on which a liar listens wherever a client connects."""

    def __init__(self, script: Sequence[bytes], *, shuffled: bool) -> None:
        self._memory = MemoryNetwork()
        self._shuffled = shuffled
        self._script = deque(script)
        self._known: set[Endpoint] = set()

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        if endpoint not in self._known:
            self._known.add(endpoint)
            await self.listen(lambda: Liar(self._script, shuffled=self._shuffled), endpoint, backlog=1)
        await self._memory.connect(factory, endpoint)

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        return await self._memory.listen(factory, endpoint, backlog=backlog)


def over(network: Network) -> None:
    """Clients of `ADDRESS` that are made from now on connect over this."""
    kafka = protocol("kafka")

    def client(
        channel_of: ChannelFactory,
        bootstrap: Sequence[Endpoint],
        config: ClientConfig,
        extra: Mapping[str, OptionValue],
    ) -> LogClient:
        del channel_of
        options = TransportOptions(connect_timeout_s=0.5, reconnect_backoff_ms=50, reconnect_backoff_max_ms=100)
        return kafka.client(
            lambda dialect: AsyncioChannel(dialect, options=options, network=network), bootstrap, config, extra
        )

    register(WireProtocol(SCHEME, client, kafka.front, kafka.config))
