"""Caller: Kafka requests over the simulated network, one at a time, for members that no client of ours speaks for."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.protocols.kafka.wire.framing import api_of, read_response, request
from tests.sim.loop import SimLoop

__all__ = ["Caller", "Unanswered"]

_SIZE = 4


class Unanswered(Exception):
    """Nobody knows whether it was done."""


class Caller(asyncio.BufferedProtocol):
    """``port`` is the node's, who has ``patience_s`` to answer; a connection is made anew where the last one ended."""

    def __init__(self, loop: SimLoop, port: int, patience_s: float) -> None:
        self._loop = loop
        self._port = port
        self._patience_s = patience_s
        self._line: Any = None
        self._space = bytearray(1 << 16)
        self._come = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, message: Any, version: int) -> Any:
        """The answer. Raises Unanswered."""
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await self._asked(b"".join(request(message, version, "newer")(1)))
        except (OSError, TimeoutError):
            self.close()
            raise Unanswered from None
        pair = api_of(message.API.key)
        assert pair is not None
        return read_response(pair.response, version, memoryview(answer))

    async def _asked(self, data: bytes) -> bytes:
        if self._line is None:
            self._come.clear()
            line, _ = await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
            self._line = line
        self._answer = self._loop.create_future()
        self._line.write(data)
        return await self._answer

    def close(self) -> None:
        if self._line is not None:
            line, self._line = self._line, None
            line.close()

    # What the connection calls.

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        self._come += self._space[:nbytes]
        size = int.from_bytes(self._come[:_SIZE], "big")
        if len(self._come) >= _SIZE + size and self._answer is not None and not self._answer.done():
            self._answer.set_result(bytes(self._come[_SIZE : _SIZE + size]))
            del self._come[: _SIZE + size]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """`ask` knows it."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._line = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("it broke"))
