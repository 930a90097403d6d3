"""Calls: every request of this client goes through here: signed, framed, sent, and its answer read.

What must not live here: which server to ask, what codes in answers mean, retries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Generic, TypeVar

from penstock.errors import PenstockError, ProtocolViolation
from penstock.model import Endpoint, Partition
from penstock.protocols.rocketmq.client.options import RocketOptions
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import Method
from penstock.protocols.rocketmq.rpc import Answered, read_answer, request
from penstock.protocols.rocketmq.signing import Account
from penstock.seams.channel import Channel, Connection, Outgoing, Pending

__all__ = ["Calls", "Started"]

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_SUCCESS = (Code.SUCCESS,)


class Started(Generic[Request, Answer]):
    """A request that was written; its answer is fetched once."""

    __slots__ = ("_connection", "_method", "pending")

    def __init__(self, connection: Connection, method: Method[Request, Answer], pending: Pending) -> None:
        self._connection = connection
        self._method = method
        self.pending = pending

    async def answer(
        self, accept: Collection[int] = _SUCCESS, *, of: Partition | None = None, offset: int | None = None
    ) -> Answered[Answer]:
        """Raises RequestTimeout, ConnectionLost, ProtocolViolation; ServerError for a code that is not in ``accept``,
        with where it happened."""
        frame = await self.pending.reply()
        try:
            return read_answer(
                self._method,
                frame,
                accept=accept,
                topic=None if of is None else of.topic,
                partition=None if of is None else of.id,
                offset=offset,
                node=str(self._connection.endpoint),
            )
        except ProtocolViolation:
            self._connection.close()  # what follows on it may mean nothing either
            raise

    def abandon(self) -> None:
        """The answer is not wanted any more; closes the connection, because it may be long in coming."""
        self._connection.close()


class Calls:
    """All requests of one client. One connection an address and lane."""

    def __init__(self, channel: Channel[None], options: RocketOptions) -> None:
        self.channel = channel
        self.options = options
        rocket = options.rocket
        self._account = (
            None if rocket.access_key is None or rocket.secret_key is None
            else Account(rocket.access_key, rocket.secret_key)
        )  # fmt: skip

    def request(
        self, method: Method[Request, Answer], header: Request, body: object = b"", *, one_way: bool = False
    ) -> Outgoing:
        """What to write."""
        return request(method, header, body, one_way=one_way, account=self._account)

    async def call(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        header: Request,
        body: object = b"",
        *,
        accept: Collection[int] = _SUCCESS,
        of: Partition | None = None,
        within_s: float | None = None,
        timeout_s: float | None = None,
        lane: str = "",
    ) -> Answered[Answer]:
        """Ask, and read the answer. ``within_s`` is how long to wait for a connection, None: as long as that may take;
        ``timeout_s`` for the answer, None: ``request_timeout_ms``. Raises as ``Started.answer``."""
        if within_s is not None:
            await self.channel.reach(endpoint, lane, within_s=within_s)
        (started,) = await self.start(
            endpoint, method, [self.request(method, header, body)], timeout_s=timeout_s, lane=lane
        )
        return await started.answer(accept, of=of)

    async def start(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        requests: Sequence[Outgoing],
        *,
        timeout_s: float | None = None,
        held_s: float = 0.0,
        lane: str = "",
    ) -> list[Started[Request, Answer]]:
        """Send without waiting for answers, in one write where none is held; ``held_s`` is how long the server may keep
        one on purpose. Servers answer in any order."""
        connection = (await self.channel.link(endpoint, lane)).connection
        patience_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        try:
            pendings: Sequence[Pending]
            if held_s or len(requests) == 1:
                pendings = [connection.start(each, timeout_s=patience_s, held_s=held_s) for each in requests]
            else:
                pendings = connection.start_all(requests, timeout_s=patience_s)
        except PenstockError as error:
            error.node = error.node or str(endpoint)
            raise
        return [Started(connection, method, pending) for pending in pendings]

    async def tell(self, endpoint: Endpoint, method: Method[Request, Any], header: Request, body: object = b"") -> None:
        """Send what is never answered. Raises ConnectionLost."""
        connection = (await self.channel.link(endpoint)).connection
        await connection.send(self.request(method, header, body, one_way=True))
