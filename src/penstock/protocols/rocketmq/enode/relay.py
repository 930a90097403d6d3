"""The way to a cluster's name servers and brokers, for frames that go on as they came.

Several connections a broker: what is held is not in the way of what is not, and one client's requests stay on one, so
that they are written in their order. A request that can be written at once costs no task: its answer is told
(`begin`). Everything else waits for its connection in line (`ask`). What must not live here: which request goes where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.errors import (
    ConnectionLost,
    OutcomeUnknown,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    UpstreamLost,
    UsageError,
)
from penstock.model import Endpoint
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.enode.brokers import Broker, Brokers
from penstock.protocols.rocketmq.enode.credentials import Credentials
from penstock.protocols.rocketmq.methods import GET_BROKER_CLUSTER_INFO
from penstock.protocols.rocketmq.rpc import read_answer, request
from penstock.seams.channel import Channel, Connection, Outgoing, Told
from penstock.seams.framing import Frame
from penstock.seams.relay import Heard
from penstock.seams.runtime import Promise
from penstock.seams.shares import NoRoom

__all__ = ["CONTROL", "SNODES", "WRITE_S", "RocketRelay"]

CONTROL: Final = "control"
"""The connection that brokers ask the node's producers over."""

SNODES: Final = "snodes"
"""The connection to another Snode."""

WRITE_S: Final = 60.0
"""How long a broker may take to answer a write: longer than a client waits, whose own timeout is not on the wire."""

_CONNECT_S: Final = 1.5
_MOST_WRITES: Final = 10_000
"""Writes that wait on one connection to a broker: a silent one must not take the room of all others."""
_LOST: Final = (ConnectionLost, RequestTimeout, ProtocolViolation)


class RocketRelay:
    """``penstock.seams.relay.Relay``; ``names`` are asked in a ring, the one that answered last first.

    ``snodes`` are connections to other Snodes, whose listeners are not encrypted though brokers' may be.
    """

    scheme = "rocketmq"

    def __init__(
        self,
        channel: Channel[None],
        names: Sequence[Endpoint],
        new_promise: Callable[[], Promise[Any]],
        timeout_s: float,
        credentials: Credentials | None = None,
        snodes: Channel[None] | None = None,
    ) -> None:
        self._channel = channel
        self._snodes = snodes or channel
        self._new_promise = new_promise
        self._opening: dict[tuple[Endpoint, str], Promise[None]] = {}
        self._names = list(names)
        self._current = 0
        self._heard: Heard | None = None
        self._looked_s = -1.0
        self.timeout_s = timeout_s
        credentials = credentials or Credentials()
        self._sign, self._sign_for_peers = credentials.sign, credentials.sign_for_peers
        self.brokers = Brokers()

    # What `Relay` says.

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        if node is None:
            return await self.ask_names(request)
        return await self.ask(self.brokers.of(node), request, held_s=held_s)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        if node is None:
            raise UsageError("nothing is told to name servers without an answer")
        await self.tell(self.brokers.of(node), message)

    def hear(self, heard: Heard) -> None:
        self._heard = heard

    # Brokers.

    def begin(
        self, broker: Broker, request: Outgoing, told: Told, *, lane: str, held_s: float = 0.0, writes: bool = False
    ) -> bool:
        """Write a request now, if a connection is open and nobody waits for it; ``told`` is called with its answer.

        An error that it is told is UpstreamLost; where the request ``writes`` and was not answered in time, it is
        OutcomeUnknown. Nothing has happened where this returns False. Raises NoRoom where too many writes wait there.
        """
        link = self._channel.prompt(broker.endpoint, lane)
        if link is None:
            return False
        if writes and link.connection.under_way >= _MOST_WRITES:
            raise NoRoom(f"{_MOST_WRITES} writes wait for broker {broker.name}, more are not taken: try again")

        def came(answer: Frame | PenstockError) -> None:
            told(self._lost(broker.name, answer, writes=writes) if isinstance(answer, PenstockError) else answer)

        timeout_s = WRITE_S if writes else self.timeout_s + held_s
        try:
            link.connection.tell(self._sign(request), came, timeout_s=timeout_s, held_s=held_s)
        except ConnectionLost:
            return False
        return True

    async def open(self, broker: Broker, lane: str) -> None:
        """Wait until there is a connection; all who want it wait for one attempt. Raises UpstreamLost: nothing has
        happened then."""
        key = broker.endpoint, lane
        opening = self._opening.get(key)
        if opening is not None:
            await opening
            return
        opened = self._opening[key] = self._new_promise()
        try:
            await self._connection(broker.endpoint, lane)
        except _LOST as error:
            raise self._lost(broker.name, error) from error
        finally:
            del self._opening[key]
            opened.set(None)

    async def ask(
        self,
        broker: Broker,
        request: Outgoing,
        *,
        lane: str = "",
        held_s: float = 0.0,
        timeout_s: float | None = None,
        writes: bool = False,
    ) -> Frame:
        """The broker's answer, whatever it says. Raises UpstreamLost: what was asked may have happened; OutcomeUnknown
        where it ``writes`` and the broker did not answer in time."""
        usual_s = WRITE_S if writes else self.timeout_s
        patience_s = (usual_s if timeout_s is None else timeout_s) + held_s
        try:
            connection = await self._connection(broker.endpoint, lane)
        except _LOST as error:
            raise self._lost(broker.name, error) from error
        try:
            return await connection.call(self._sign(request), timeout_s=patience_s, held_s=held_s)
        except _LOST as error:
            raise self._lost(broker.name, error, writes=writes) from error

    async def tell(self, broker: Broker, message: Outgoing, *, lane: str = "") -> None:
        """Send what is never answered. Raises UpstreamLost where it could not be written."""
        try:
            connection = await self._connection(broker.endpoint, lane)
            await connection.send(self._sign(message))
        except _LOST as error:
            raise self._lost(broker.name, error) from error

    async def ask_snode(self, endpoint: Endpoint, request: Outgoing, *, held_s: float = 0.0) -> Frame:
        """Another Snode's answer. Raises UpstreamLost: what was asked may have happened."""
        try:
            connection = await self._connection(endpoint, SNODES)
            return await connection.call(
                self._sign_for_peers(request), timeout_s=self.timeout_s + held_s, held_s=held_s
            )
        except _LOST as error:
            raise UpstreamLost(f"the Snode at {endpoint} did not answer: {error.message}") from error

    async def gather(self, work: Sequence[Any]) -> list[Any]:
        """All of it side by side; what each returns or raises."""
        return await self._channel.gather(work)

    # Name servers.

    async def ask_names(self, request: Outgoing) -> Frame:
        """The answer of one name server. Raises UpstreamLost where none answers."""
        last: PenstockError | None = None
        for _ in self._names:
            at = self._current
            try:
                connection = await self._connection(self._names[at], "")
                return await connection.call(self._sign(request), timeout_s=self.timeout_s)
            except _LOST as error:
                last = error
                if self._current == at:
                    self._current = (at + 1) % len(self._names)
        said = ", ".join(map(str, self._names))
        raise UpstreamLost(f"no name server answers ({said}): {last.message if last else ''}") from last

    @property
    def names(self) -> Sequence[Endpoint]:
        """The name servers, as they were given."""
        return self._names

    async def ask_name(self, name: Endpoint, request: Outgoing, *, lane: str = "") -> Frame:
        """The answer of this one. Raises ConnectionLost, RequestTimeout, ProtocolViolation."""
        connection = await self._connection(name, lane)
        return await connection.call(self._sign(request), timeout_s=self.timeout_s)

    async def ask_all_names(self, request: Outgoing) -> list[Frame]:
        """The answers of those that answer. Raises UpstreamLost where none does."""
        found = await self.gather([self.ask_name(each, request) for each in self._names])
        answers = [each for each in found if isinstance(each, Frame)]
        if not answers:
            raise UpstreamLost("no name server answers")
        return answers

    async def look(self) -> None:
        """Ask name servers where the brokers are. Raises UpstreamLost, ServerError, ProtocolViolation."""
        self._looked_s = self._channel.monotonic()
        frame = await self.ask_names(request(GET_BROKER_CLUSTER_INFO, m.NoFields()))
        answered = read_answer(GET_BROKER_CLUSTER_INFO, frame)
        self.told(m.read_body(m.ClusterInfo, answered.command.body))

    def told(self, info: m.ClusterInfo) -> None:
        """What a name server says of brokers."""
        self.brokers.told(info, self._channel.monotonic())

    def looked_within(self, seconds: float) -> bool:
        """Whether they were asked that short a time ago."""
        return self._looked_s >= 0 and self._channel.monotonic() - self._looked_s < seconds

    async def unreachable(self) -> str | None:
        """What is in the way of all clients, if anything is: no name server answers, or no master takes a connection.

        Raises PenstockError, which says it too.
        """
        await self.look()
        masters = self.brokers.masters()
        if not masters:
            return "no name server knows a master broker"
        found = await self.gather([self.open(each, "") for each in masters])
        if None not in found:
            return "no master broker takes a connection: " + ", ".join(str(each.endpoint) for each in masters[:3])
        return None

    # Inside.

    def pushed(self, connection: Connection, frame: Frame) -> None:
        """What a broker sends of its own accord."""
        if self._heard is not None:
            self._heard(self.brokers.known(str(connection.endpoint)), frame)

    async def _connection(self, endpoint: Endpoint, lane: str) -> Connection:
        channel = self._snodes if lane == SNODES else self._channel
        return (await channel.reach(endpoint, lane, within_s=_CONNECT_S)).connection

    def _lost(self, name: str, error: PenstockError, *, writes: bool = False) -> UpstreamLost:
        self._looked_s = -1.0  # what name servers say may have changed
        if writes and isinstance(error.__cause__ or error, RequestTimeout):
            return OutcomeUnknown(
                f"broker {name} did not answer: {error.message}: it may store this yet, look before you send it again",
                node=name,
            )
        return UpstreamLost(f"broker {name} did not answer: {error.message}", node=name)
