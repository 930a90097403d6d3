"""Relay: the way past the neutral form. A front hands a frame on to servers that speak its own protocol.

So ids, store times and flags stay what they were, and nothing is transcoded. A front asks its enode once for
``relay(scheme)``; where there is none it goes by batches, as all others do. What must not live here: which requests are
handed on, which each front says in its own table.

What is handed on is an `Outgoing`, not a `Frame`: whoever writes a frame sets its correlation id, and where that stands
is the protocol's business. In the toy's frames it stands in front of everything, so that the body goes on as it came.
In RocketMQ's it is a field of a header within the frame, which is therefore written anew on every hop; a front that
changes more of the header (another request code, a filter, a signature) does so in the same place. Either way what
follows the header is a piece of the frame that came, and is not copied. For the same reason an answer is returned as
it came, with the number that it had on the way here.

A frame is understood by the node that it goes to, so what it names must be called there what the client calls it. A
front that hands on therefore tells its clients of the nodes behind, by their own names and with their own numbers of
partitions, and of itself as the place to reach them; requests have to say which node they mean.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from penstock.errors import ConnectionLost, ProtocolViolation, RequestTimeout, UpstreamLost
from penstock.model import Endpoint
from penstock.seams.channel import Channel, Connection, Outgoing
from penstock.seams.framing import Buffers, Frame
from penstock.seams.locks import Locks
from penstock.seams.runtime import Promise

__all__ = ["ChannelRelay", "Find", "Heard", "Relay"]

Heard = Callable[[str | None, Frame], Buffers | None]
"""Is told what a node (by name; None where it was meant by none) sends unasked; an answer to write to it, if any."""

Find = Callable[[str | None, bool], Awaitable[Endpoint]]
"""Where a node is reached, None being whoever tells of the whole cluster; True where what was said last did not serve.

Raises UsageError for a name that is none of the cluster's."""


class Relay(Protocol):
    """To the servers behind an enode, over connections that the enode keeps for all clients of this node together."""

    @property
    def scheme(self) -> str:
        """The protocol that is spoken behind: that of the fronts which may use this."""
        ...

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        """Ask a node (``Place.node``; None: whoever tells of the whole cluster), and return its answer.

        ``held_s``: for how long the server may keep the answer on purpose (a long poll). Requests to one node are
        written in the order of the calls; answers come in any. What the server refuses is an answer like any other.
        A request whose caller is gone is answered all the same, to nobody. Raises UpstreamLost where the answer did not
        come: what was asked may then have happened, and nothing is asked twice here. Raises UsageError for a node that
        the cluster does not have, so that no client can choose where the node connects to.
        """
        ...

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        """The same for what is never answered. Raises UpstreamLost where it could not be written."""
        ...

    def hear(self, heard: Heard) -> None:
        """Whom to tell of what the nodes send unasked (a notice, a question about a transaction); one front."""
        ...


class ChannelRelay:
    """`Relay` over the channel of a protocol's enode: all that the protocol adds is where its nodes are (``find``).

    One connection a node carries all that is handed on to it. An answer that is not there ``timeout_s`` after it was
    due takes that connection with it, and all that is under way on it: so only what is always answered is handed on.
    """

    def __init__(
        self,
        scheme: str,
        channel: Channel[Any],
        find: Find,
        new_promise: Callable[[], Promise[Any]],
        *,
        timeout_s: float,
        lane: str = "relay",
    ) -> None:
        self.scheme = scheme
        self._channel = channel
        self._find = find
        self._timeout_s = timeout_s
        self._lane = lane
        self._turns: Locks[str | None] = Locks(new_promise)
        self._doubted: set[str | None] = set()
        self._names: dict[Endpoint, str | None] = {}
        self._heard: Heard | None = None

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        try:
            connection = await self._connection(node)
            return await connection.call(request, timeout_s=self._timeout_s + held_s, held_s=held_s)
        except (ConnectionLost, RequestTimeout, ProtocolViolation) as error:
            raise self._lost(node, error) from error

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        try:
            connection = await self._connection(node)
            await connection.send(message)
        except (ConnectionLost, RequestTimeout, ProtocolViolation) as error:
            raise self._lost(node, error) from error

    def hear(self, heard: Heard) -> None:
        self._heard = heard

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """What a `Dialect` of the enode calls with what came unasked, on whichever connection."""
        return None if self._heard is None else self._heard(self._names.get(connection.endpoint), frame)

    async def _connection(self, node: str | None) -> Connection:
        """Waits three times at most (for the node's address, for the link, and for room in the call that follows), each
        time in one line with all others: so nobody overtakes."""
        async with self._turns.held(node):
            endpoint = await self._find(node, node in self._doubted)
            self._doubted.discard(node)
        self._names[endpoint] = node
        link = await self._channel.link(endpoint, self._lane)
        return link.connection

    def _lost(self, node: str | None, error: ConnectionLost | RequestTimeout | ProtocolViolation) -> UpstreamLost:
        self._doubted.add(node)
        return UpstreamLost(f"{node or 'the cluster'} did not answer: {error.message}", node=node)
