"""Connections of group members, one per member: requests are encoded and decoded with our codec, without our client.

Each connection has one request in flight, as a member does, and takes the next bytes as its response.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar, cast

from penstock.protocols.kafka.wire.codec import declared
from penstock.protocols.kafka.wire.framing import read_response, request
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["Line", "Refused", "Waited", "at_once", "opened", "raise_limit"]

Response = TypeVar("Response")
Waited = TypeVar("Waited")
_PREFIX = 4
_WITHIN_S = 60.0
_READY_WITHIN_S = 30.0
_AGAIN_S = 0.2


class Refused(Exception):
    """The server responded with an error that the bench does not handle."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what} was refused with code {code}")
        self.code = code


class Line(asyncio.Protocol):
    """One connection. Raises ConnectionError from `ask` when it is lost, TimeoutError after one minute."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from it

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = _PREFIX + int.from_bytes(self._held[:_PREFIX], "big")
        if len(self._held) >= max(end, _PREFIX):
            body = bytes(self._held[_PREFIX:end])
            del self._held[:end]
            answer, self._answer = self._answer, None
            if answer is not None and not answer.done():
                answer.set_result(body)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server hung up"))

    async def ask(self, message: Any, response: type[Response], *, at_most: int | None = None) -> Response:
        """Send a request in our newest version, or in ``at_most``; returns the response."""
        assert self._transport is not None
        assert self._answer is None, "one question at a time"
        version = declared(type(message)).highest if at_most is None else at_most
        self._number += 1
        loop = asyncio.get_running_loop()
        answer = self._answer = loop.create_future()
        timer = loop.call_later(_WITHIN_S, _late, answer)
        self._transport.writelines(request(message, version, "bench")(self._number))
        try:
            return read_response(response, version, await answer)
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def _late(answer: asyncio.Future[bytes]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError(f"no answer within {_WITHIN_S:.0f} s"))


async def opened(bootstrap: str, count: int, group: str) -> list[Line]:
    """``count`` connections to a server that coordinates ``group``. Raises TimeoutError if it does not get ready."""
    host, _, port = bootstrap.rpartition(":")
    loop = asyncio.get_running_loop()
    lines = []
    for _ in range(count):  # one after the other, because the listen backlog is short
        _, line = await loop.create_connection(Line, host, int(port))
        lines.append(line)
    await _coordinated(lines[0], group)
    return lines


async def _coordinated(line: Line, group: str) -> None:
    """Wait until the server coordinates ``group``: a real broker creates its offsets topic on the first lookup."""
    deadline = time.perf_counter() + _READY_WITHIN_S
    while time.perf_counter() < deadline:
        answer = await line.ask(FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse)
        if not answer.coordinators[0].error_code:
            return
        await asyncio.sleep(_AGAIN_S)
    raise TimeoutError(f"nobody coordinates {group} after {_READY_WITHIN_S:.0f} s")


async def at_once(work: Iterable[Awaitable[Waited]]) -> list[Waited]:
    """Run everything concurrently; the first error ends it."""
    return await asyncio.gather(*work)


def raise_limit(connections: int) -> None:
    """Allow this process so many open connections. Raises ValueError if the system does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
