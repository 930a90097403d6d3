"""MemoryNetwork: listeners and connections inside one process and one event loop, no sockets.

The transports behave as asyncio's do where it matters: pausing, high-water marks, half-written data at a close.
Time passes only through the loop, so a loop with virtual time makes the whole network virtual.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.net.network import Listening, ProtocolFactory

__all__ = ["MemoryNetwork"]

_HIGH_WATER_BYTES = 64 * 1024
_FIRST_PORT = 40_000


class MemoryNetwork:
    """``penstock.net.network.Network`` in memory. ``latency_s`` is asked for once per written buffer."""

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


@dataclass(frozen=True, slots=True)
class _MemoryListening:
    endpoint: Endpoint
    network: MemoryNetwork

    def close(self) -> None:
        self.network.forget(self.endpoint)


class _MemoryTransport(asyncio.Transport):
    """One end. ``_coming`` is on its way here; ``_inbox`` has arrived and was not taken. Both count as unsent there."""

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

    # What protocols call.

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

    # Inside.

    def _send(self, data: memoryview | None, latency_s: float) -> None:
        """Let ``data``, or the end (None), be there after ``latency_s``, and never before what was sent before it."""
        # The queue keeps the order: timers of the same moment fire in any.
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
