"""Calls: every request of this client goes through here, to be framed, sent, and its answer read.

The server is told how long it may take, a little less than is waited for here: what it cannot answer in time it drops
without a word. What must not live here: which server to ask, what codes in answers mean, retries.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.channel import Channel, Link, Pending
from penstock.model import Endpoint
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.messages.declare import Message
from penstock.protocols.tubemq.methods import Method, Service
from penstock.protocols.tubemq.rpc import read_answer, read_payload, request

__all__ = ["Calls", "Started"]

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_SLACK_S = 0.5


class Started(Generic[Request, Answer]):
    """A request that was written; its answer is fetched once, by ``answer`` or by ``payload``."""

    __slots__ = ("_link", "_method", "_pending")

    def __init__(self, link: Link[None], pending: Pending, method: Method[Request, Answer]) -> None:
        self._link = link
        self._pending = pending
        self._method = method

    async def answer(self) -> Answer:
        """Raises RequestTimeout, ConnectionLost, ProtocolViolation; RpcFailure and Standby when the call failed."""
        connection = self._link.connection
        frame = await self._pending.reply()
        try:
            return read_answer(self._method, frame, node=str(connection.endpoint))
        except ProtocolViolation:
            connection.close()  # what follows on it may mean nothing either
            raise

    async def payload(self) -> memoryview:
        """The answer's own message, not decoded. Raises as ``answer``."""
        connection = self._link.connection
        frame = await self._pending.reply()
        try:
            return read_payload(self._method, frame, node=str(connection.endpoint))
        except ProtocolViolation:
            connection.close()
            raise

    def abandon(self) -> None:
        """The answer is not wanted any more; closes the connection, because it may be long in coming."""
        self._link.connection.close()


class Calls:
    """All requests of one client. One connection an address and lane; see `TubeOptions.lane_of`."""

    def __init__(self, channel: Channel[None], options: TubeOptions) -> None:
        self.channel = channel
        self.options = options

    async def call(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        message: Request,
        *,
        timeout_ms: int | None = None,
        service: Service | None = None,
        within_s: float | None = None,
        lane: str = "",
    ) -> Answer:
        """Ask, and read the answer. ``timeout_ms`` None is ``rpc_timeout_ms``; ``within_s`` is how long to wait for a
        connection, None: as long as that may take.

        Raises ConnectionLost, RequestTimeout, ProtocolViolation; RpcFailure and Standby when the call failed there.
        What the answer's own code says is the caller's business.
        """
        if within_s is not None:
            await self.channel.reach(endpoint, lane, within_s=within_s)
        started = await self.start(endpoint, method, message, timeout_ms=timeout_ms, service=service, lane=lane)
        return await started.answer()

    async def start(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        message: Request,
        *,
        timeout_ms: int | None = None,
        service: Service | None = None,
        lane: str = "",
    ) -> Started[Request, Answer]:
        """Send without waiting for the answer. Requests of one lane are served in the order they were sent."""
        link = await self.channel.link(endpoint, lane)
        patience = self.options.rpc_timeout_ms if timeout_ms is None else timeout_ms
        outgoing = request(method, message, timeout_ms=patience, service=service)
        try:
            pending = link.connection.start(outgoing, timeout_s=patience / 1_000 + _SLACK_S)
        except PenstockError as error:
            error.node = error.node or str(endpoint)
            raise
        return Started(link, pending, method)
