"""Raw requests over a socket, one at a time, to our node or to a real broker."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from penstock.protocols.kafka.wire.framing import api_of, read_response, request

_NOT_NOW = (6, 14, 15, 16, 51)
"""Not yet the leader of a new topic, loading, moved, still ending the transaction before: real brokers say so now and
then, and mean it to pass."""


class Wire:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, message: Any, version: int) -> Any:
        self.writer.write(b"".join(request(message, version, "test")(1)))
        return await self._answer(message, version)

    async def ask_with(self, message: Any, version: int, shown: bytes, meant: bytes) -> Any:
        """The answer to ``message`` with the bytes ``meant``, as many, in the place of ``shown``."""
        assert len(shown) == len(meant)
        self.writer.write(b"".join(request(message, version, "test")(1)).replace(shown, meant))
        return await self._answer(message, version)

    async def _answer(self, message: Any, version: int) -> Any:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        pair = api_of(message.API.key)
        assert pair is not None
        return read_response(pair.response, version, memoryview(await self._reader.readexactly(size)))


async def told(ask: Callable[[], Awaitable[Any]]) -> Any:
    """The answer, once it is not that of a broker that is busy."""
    for _ in range(200):
        answer = await ask()
        if not set(answer if isinstance(answer, list) else [answer]) & set(_NOT_NOW):
            return answer
        # A real broker gives no sign of when it is ready.
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.03, over.set_result, None)
        await over
    raise AssertionError("the broker was never ready")


@asynccontextmanager
async def wired(bootstrap: str) -> AsyncIterator[Wire]:
    """A connection until the block ends."""
    host, _, port = bootstrap.rpartition(":")
    wire = Wire(*await asyncio.open_connection(host, int(port)))
    try:
        yield wire
    finally:
        wire.writer.close()
        await wire.writer.wait_closed()
