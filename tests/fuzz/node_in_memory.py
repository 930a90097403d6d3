"""A whole node on an in-memory network in virtual time, and a client that sends bytes: for the node's fuzz target.

Nothing is left to chance: the same bytes bring the same answers, ids and offsets.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from penstock.config import ListenAddress, SnodeConfig
from penstock.model import Endpoint
from penstock.net.network import MemoryNetwork
from penstock.net.runtime import AsyncioRuntime
from penstock.net.server import FaultHook
from penstock.protocols.kafka.wire.framing import api_of, read_response, request
from penstock.snode import Node
from tests.unit.client.virtual_time import VirtualLoop

T = TypeVar("T")
_EPOCH_MS = 1_700_000_000_000
_CONFIG = SnodeConfig(
    listen=(ListenAddress("kafka", Endpoint("127.0.0.1", 9092)),),
    offsets_partitions=1,
    retention_check_ms=600_000,
    flush_interval_ms=3_600_000,
    drain_ms=1_000,
)


class Line(asyncio.BufferedProtocol):
    """A client's end of one connection: sends what it is told, keeps what comes."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = False
        self._space = bytearray(64 * 1024)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._space[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost = True

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def hang_up(self) -> None:
        self._transport.close()


class World:
    """One node and its network, inside a running loop. ``bugs`` are errors that were only logged."""

    def __init__(self, bugs: list[BaseException], tap: FaultHook | None = None) -> None:
        self.network = MemoryNetwork()
        self.bugs = bugs
        loop = asyncio.get_running_loop()
        numbers = itertools.count()
        runtime = AsyncioRuntime(
            self.bugs.append,
            wall_clock_ms=lambda: _EPOCH_MS + int(loop.time() * 1_000),
            random_bytes=lambda count: hashlib.sha256(b"%d" % next(numbers)).digest()[:count],
        )
        self.node = Node(_CONFIG, network=self.network, runtime=runtime, taps={"kafka": tap} if tap else None)
        loop.set_exception_handler(lambda _, context: self.bugs.append(context.get("exception") or Noted(str(context))))

    async def line(self) -> Line:
        """Connect."""
        line = Line()
        await self.network.connect(lambda: line, Endpoint("127.0.0.1", 9092))
        return line

    async def ask(self, line: Line, message: Any, version: int) -> Any:
        """Send a good request and return the answer, which must come within a virtual second."""
        wire = framed(message, version)
        begun = len(line.received)
        line.send(wire)
        await asyncio.sleep(1)
        answer = bytes(line.received[begun:])
        assert len(answer) >= 4, f"no answer to {type(message).__name__} v{version}"
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        pair = api_of(message.API.key)
        assert pair is not None
        return read_response(pair.response, version, answer[4:])


class Noted(Exception):
    """Something that was logged as an error and has no exception of its own."""


def framed(message: Any, version: int, correlation: int = 7) -> bytes:
    """A whole request as it goes over the wire."""
    return b"".join(request(message, version, "fuzz")(correlation))


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


@contextmanager
def errors_noted(bugs: list[BaseException]) -> Iterator[None]:
    """What the node logs as an error (it goes on; a connection ends) is put into ``bugs``."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            bugs.append(error or Noted(record.getMessage()))

    handler, logger = Handler(logging.ERROR), logging.getLogger("penstock")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
