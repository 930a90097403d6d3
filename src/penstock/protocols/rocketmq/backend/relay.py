"""Connections to a cluster's name servers and brokers.

`Brokers` knows the brokers and their addresses. `Credentials` signs requests. `RocketRelay` carries forwarded frames
and the front's own requests; `Asking` sends the requests of the neutral form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Struct, field

from penstock.concurrency.limits import NoRoom
from penstock.concurrency.runtime import Promise
from penstock.config.address import host_and_port
from penstock.errors import (
    BatchTooLarge,
    ConnectionLost,
    ErrorKind,
    OutcomeUnknown,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    StoreError,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    UsageError,
)
from penstock.interfaces.channel import Channel, Connection, OnAnswer, Outgoing
from penstock.interfaces.enode import Heard
from penstock.interfaces.framing import Frame
from penstock.model import Endpoint
from penstock.protocols.rocketmq.errors import Code, is_too_large
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import Framed, framed
from penstock.protocols.rocketmq.wire.message_format import Host
from penstock.protocols.rocketmq.wire.rpc import (
    ACCESS_KEY,
    GET_BROKER_CLUSTER_INFO,
    SECURITY_TOKEN,
    SIGNATURE,
    UNSIGNED_KEY,
    UNSIGNED_KEY_VERSION,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Account,
    Answered,
    Method,
    read_answer,
    request,
    signed,
)

__all__ = [
    "CONTROL",
    "MASTER",
    "SNODES",
    "WRITE_S",
    "Asking",
    "Broker",
    "Brokers",
    "Credentials",
    "RocketRelay",
    "endpoint_of",
]

# Brokers by name and id, with their addresses, as name servers last reported them.
#
# A name that name servers report no longer keeps its last addresses for ten minutes: a name server that has just
# started knows only the brokers that have registered since.
MASTER: Final = 0
_FORGOTTEN_S: Final = 600.0
_MOST: Final = 10_000
"""The most broker names that are kept; more cannot be true."""


class Broker(NamedTuple):
    """One server: ``number`` 0 is the master of its broker name, others are its standbys."""

    name: str
    number: int
    endpoint: Endpoint


class Brokers:
    """All brokers of a cluster. Addresses come from name servers only, never from a client."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, Endpoint]] = {}
        self._said_s: dict[str, float] = {}
        self._names: dict[Endpoint, str] = {}
        self.clusters: Mapping[str, tuple[str, ...]] = {}

    def set_cluster(self, info: m.ClusterInfo, now_s: float) -> None:
        """Take over a name server's report. Invalid addresses are skipped, and so is a report without any broker.

        ``now_s`` is from a monotonic clock.
        """
        for name, broker in info.broker_addr_table.items():
            found = {number: at for number, text in broker.broker_addrs.items() if (at := endpoint_of(text))}
            if found and (name in self._known or len(self._known) < _MOST):
                self._known[name] = found
                self._said_s[name] = now_s
        if info.broker_addr_table:
            for name in [each for each, said_s in self._said_s.items() if now_s - said_s > _FORGOTTEN_S]:
                del self._known[name], self._said_s[name]
        self.clusters = info.cluster_addr_table
        self._names = {at: name for name, places in self._known.items() for at in places.values()}

    @property
    def names(self) -> Sequence[str]:
        """The brokers' names, sorted."""
        return sorted(self._known)

    def masters(self) -> Sequence[Broker]:
        """The known masters, by name."""
        return [Broker(name, MASTER, self._known[name][MASTER]) for name in self.names if MASTER in self._known[name]]

    def of(self, name: str, number: int = MASTER, *, standby: bool = False) -> Broker:
        """The server with this number; with ``standby`` another one of its name if that is missing.

        Raises UsageError for a name that the cluster does not have: no client may choose where the node connects.
        """
        places = self._known.get(name)
        if places is None:
            raise UsageError(f"the cluster has no broker {name[:100]!r}")
        if number not in places and standby:
            number = MASTER if MASTER in places else min(places)
        if number not in places:
            raise UsageError(f"no name server knows a master of broker {name[:100]!r} now")
        return Broker(name, number, places[number])

    def known(self, name: str) -> str | None:
        """A broker's name from its name, its address as ``host:port``, or its VIP address, two ports below; None for
        anything else."""
        if name in self._known:
            return name
        at = endpoint_of(name)
        return None if at is None else self._names.get(at) or self._names.get(Endpoint(at.host, at.port + 2))

    def at(self, host: Host) -> str | None:
        """The name of the broker at the address in a message id; None if there is none."""
        return self.known(str(host))


def endpoint_of(text: str) -> Endpoint | None:
    """A ``host:port`` that a broker registered; None for anything else."""
    host, port = host_and_port(text)
    if not host or not port.isascii() or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 1 << 16:
        return None
    return Endpoint(host, int(port))


# The account for requests to brokers and name servers. Requests are signed anew, because the node changes them.
#
# A client whose account the node knows, and whose signature it has checked (``server/call``), keeps its name, so that
# brokers apply its permissions. Everything else is signed with the node's own account. Without any account, clients'
# signatures are forwarded; they stay valid for requests that the node does not change, but it changes pulls. Source:
# Apache RocketMQ 4.9, ``AclClientRPCHook``.
_QUERY_MESSAGE: Final = 12
_OF_SIGNATURES: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})


class Credentials(Struct, frozen=True):
    """``own`` is the node's account; ``clients`` are the accounts, by access key, of clients that keep their names.

    ``peers`` is an account that other Snodes know, too: they have the same clients, and trust any of their signatures.
    """

    own: Account | None = None
    clients: Mapping[str, Account] = field(default_factory=dict)
    peers: Account | None = None

    def sign_for_peers(self, request: Outgoing) -> Outgoing:
        """Sign a request to another Snode."""
        return request if self.peers is None else Credentials(self.peers).sign(request)

    def sign(self, request: Outgoing) -> Outgoing:
        """Sign a request for a broker or a name server; unchanged if there is no account for it."""
        if (self.own is None and not self.clients) or not isinstance(request, Framed):
            return request
        command = request.command
        account = self.clients.get(command.fields.get(ACCESS_KEY, ""), self.own)
        if account is None:
            return request
        fields = {name: value for name, value in command.fields.items() if name not in _OF_SIGNATURES}
        version, without = command.version, _NOTHING
        if command.code == _QUERY_MESSAGE:
            version, without = UNSIGNED_KEY_VERSION, (UNSIGNED_KEY,)
        return framed(command._replace(fields=signed(account, fields, command.body, without=without), version=version))


_NOTHING: Final[Collection[str]] = ()

CONTROL: Final = "control"
"""The lane on which brokers send questions to the node's producers."""

SNODES: Final = "snodes"
"""The lane to another Snode."""

WRITE_S: Final = 60.0
"""How long a broker may take to answer a write: longer than clients wait. Their own timeout is not in the request."""

_CONNECT_S: Final = 1.5
_MOST_WRITES: Final = 10_000
"""Writes that may wait on one connection to a broker, so that a silent one does not use up everything."""
_LOST: Final = (ConnectionLost, RequestTimeout, ProtocolViolation)


class RocketRelay:
    """The cluster's connections (``penstock.interfaces.enode.Relay``). ``names``: addresses of the name servers, asked
    in a ring that begins with the one that answered last.

    ``snodes``: the channel to other Snodes, whose listeners are not encrypted even if the brokers' are.
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

    # `Relay`.

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        if node is None:
            return await self.ask_names(request)
        return await self.ask(self.brokers.of(node), request, held_s=held_s)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        if node is None:
            raise UsageError("a name server is not called without an answer")
        await self.tell(self.brokers.of(node), message)

    def hear(self, heard: Heard) -> None:
        self._heard = heard

    # Brokers.

    def begin(
        self,
        broker: Broker,
        request: Outgoing,
        on_answer: OnAnswer,
        *,
        lane: str,
        held_s: float = 0.0,
        writes: bool = False,
    ) -> bool:
        """Write a request now, if a connection is open and idle. ``on_answer`` gets the response.

        Errors that ``on_answer`` gets are UpstreamLost; a request that ``writes`` and is not answered in time gets
        OutcomeUnknown. Returns False if nothing was written. Raises NoRoom if too many writes wait there.
        """
        link = self._channel.prompt(broker.endpoint, lane)
        if link is None:
            return False
        if writes and link.connection.under_way >= _MOST_WRITES:
            raise NoRoom(f"{_MOST_WRITES} writes wait for broker {broker.name}, more are not taken: try again")

        def came(answer: Frame | PenstockError) -> None:
            on_answer(self._lost(broker.name, answer, writes=writes) if isinstance(answer, PenstockError) else answer)

        timeout_s = WRITE_S if writes else self.timeout_s + held_s
        try:
            link.connection.tell(self._sign(request), came, timeout_s=timeout_s, held_s=held_s)
        except ConnectionLost:
            return False
        return True

    async def open(self, broker: Broker, lane: str) -> None:
        """Wait for a connection; concurrent callers share one attempt. Raises UpstreamLost; nothing has been sent
        then."""
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
        """The broker's response, whatever its code. Raises UpstreamLost, after which the request may have been carried
        out; OutcomeUnknown if it ``writes`` and the broker did not answer in time."""
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
        """Send a one-way request. Raises UpstreamLost if it could not be written."""
        try:
            connection = await self._connection(broker.endpoint, lane)
            await connection.send(self._sign(message))
        except _LOST as error:
            raise self._lost(broker.name, error) from error

    async def ask_snode(self, endpoint: Endpoint, request: Outgoing, *, held_s: float = 0.0) -> Frame:
        """Another Snode's response. Raises UpstreamLost; the request may have been carried out then."""
        try:
            connection = await self._connection(endpoint, SNODES)
            return await connection.call(
                self._sign_for_peers(request), timeout_s=self.timeout_s + held_s, held_s=held_s
            )
        except _LOST as error:
            raise UpstreamLost(f"the Snode at {endpoint} did not answer: {error.message}") from error

    async def gather(self, work: Sequence[Any]) -> list[Any]:
        """Run all concurrently; returns each result or exception."""
        return await self._channel.gather(work)

    # Name servers.

    async def ask_names(self, request: Outgoing) -> Frame:
        """The response of one name server. Raises UpstreamLost if none answers."""
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
        """The configured name servers."""
        return self._names

    async def ask_name(self, name: Endpoint, request: Outgoing, *, lane: str = "") -> Frame:
        """The response of this name server. Raises ConnectionLost, RequestTimeout, ProtocolViolation."""
        connection = await self._connection(name, lane)
        return await connection.call(self._sign(request), timeout_s=self.timeout_s)

    async def ask_all_names(self, request: Outgoing) -> list[Frame]:
        """The responses of all name servers that answer. Raises UpstreamLost if none does."""
        found = await self.gather([self.ask_name(each, request) for each in self._names])
        answers = [each for each in found if isinstance(each, Frame)]
        if not answers:
            raise UpstreamLost("no name server answers")
        return answers

    async def look(self) -> None:
        """Ask a name server for the brokers. Raises UpstreamLost, ServerError, ProtocolViolation."""
        self._looked_s = self._channel.monotonic()
        frame = await self.ask_names(request(GET_BROKER_CLUSTER_INFO, m.NoFields()))
        answered = read_answer(GET_BROKER_CLUSTER_INFO, frame)
        self.set_cluster(m.read_body(m.ClusterInfo, answered.command.body))

    def set_cluster(self, info: m.ClusterInfo) -> None:
        """Take over a name server's report of brokers."""
        self.brokers.set_cluster(info, self._channel.monotonic())

    def looked_within(self, seconds: float) -> bool:
        """Whether name servers were asked within the last ``seconds``."""
        return self._looked_s >= 0 and self._channel.monotonic() - self._looked_s < seconds

    async def unreachable(self) -> str | None:
        """What keeps all clients from working, if anything: no name server answers, or no master accepts a connection.

        Raises PenstockError with the same meaning.
        """
        await self.look()
        masters = self.brokers.masters()
        if not masters:
            return "no name server knows a master broker"
        found = await self.gather([self.open(each, "") for each in masters])
        if None not in found:
            return "no master broker takes a connection: " + ", ".join(str(each.endpoint) for each in masters[:3])
        return None

    # Internals.

    def pushed(self, connection: Connection, frame: Frame) -> None:
        """Receive a request that a broker sends."""
        if self._heard is not None:
            self._heard(self.brokers.known(str(connection.endpoint)), frame)

    async def _connection(self, endpoint: Endpoint, lane: str) -> Connection:
        channel = self._snodes if lane == SNODES else self._channel
        return (await channel.reach(endpoint, lane, within_s=_CONNECT_S)).connection

    def _lost(self, name: str, error: PenstockError, *, writes: bool = False) -> UpstreamLost:
        self._looked_s = -1.0  # the brokers may have changed
        if writes and isinstance(error.__cause__ or error, RequestTimeout):
            return OutcomeUnknown(
                f"broker {name} did not answer: {error.message}: it may store this yet, look before you send it again",
                node=name,
            )
        return UpstreamLost(f"broker {name} did not answer: {error.message}", node=name)


# The backend's own requests to brokers and name servers, and the errors that their refusals become.
_OK: Final = (Code.SUCCESS,)

Req = TypeVar("Req")
Ans = TypeVar("Ans")
T = TypeVar("T")


class Asking:
    """All requests of the neutral form. Errors are those of `penstock.interfaces.enode.Enode`."""

    def __init__(self, relay: RocketRelay) -> None:
        self._relay = relay

    @property
    def clusters(self) -> Mapping[str, Sequence[str]]:
        """The brokers' names of each cluster that the name servers know."""
        return self._relay.brokers.clusters

    def masters(self) -> list[Broker]:
        """All masters, by name. Raises UpstreamLost if none is known."""
        masters = list(self._relay.brokers.masters())
        if not masters:
            raise UpstreamLost("no broker of the RocketMQ cluster is known now")
        return masters

    async def broker(
        self,
        name: str,
        method: Method[Req, Ans],
        header: Req,
        body: object = b"",
        *,
        accept: Collection[int] = _OK,
        lane: str = "neutral",
        held_s: float = 0.0,
        standby: bool = False,
        write_s: float | None = None,
    ) -> Answered[Ans]:
        """The response of a broker's master; with ``standby`` of any server of that name.

        ``write_s``: the request writes, and its response is awaited for this long (OutcomeUnknown after that).
        """
        try:
            broker = self._relay.brokers.of(name, standby=standby)
        except UsageError as error:
            raise UpstreamLost(error.message, node=name) from error
        frame = await self._relay.ask(
            broker,
            request(method, header, body),
            lane=lane,
            held_s=held_s,
            timeout_s=write_s,
            writes=write_s is not None,
        )
        return _read(method, frame, accept, name)

    async def of_group(
        self,
        name: str,
        group: str,
        method: Method[Req, Ans],
        header: Req,
        *,
        accept: Collection[int] = _OK,
        lane: str = "neutral",
        held_s: float = 0.0,
        standby: bool = False,
    ) -> Answered[Ans]:
        """A request about a group. If the broker does not know the group (5.x), the group is created first."""

        async def once(*codes: int) -> Answered[Ans]:
            return await self.broker(
                name, method, header, accept=(*accept, *codes), lane=lane, held_s=held_s, standby=standby
            )

        answer = await once(Code.SUBSCRIPTION_GROUP_NOT_EXIST)
        if answer.code != Code.SUBSCRIPTION_GROUP_NOT_EXIST:
            return answer
        settings = m.SubscriptionGroupConfig(group_name=group)
        await self.broker(name, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, m.NoFields(), settings)
        return await once()

    async def names(self, method: Method[Req, Ans], header: Req, *, accept: Collection[int] = _OK) -> Answered[Ans]:
        """The response of one name server."""
        return _read(method, await self._relay.ask_names(request(method, header)), accept)

    async def all_names(self, method: Method[Req, Ans], header: Req) -> None:
        """Ask every name server that answers."""
        for frame in await self._relay.ask_all_names(request(method, header)):
            _read(method, frame, _OK)

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | PenstockError]:
        """Run all concurrently; returns each result or PenstockError. Other exceptions are raised."""
        found: list[T | PenstockError] = await self._relay.gather(work)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, PenstockError):
                raise each
        return found


def _read(method: Method[Req, Ans], frame: Frame, accept: Collection[int], node: str | None = None) -> Answered[Ans]:
    try:
        return read_answer(method, frame, accept=accept, node=node)
    except ServerError as error:
        raise _as_log_says(error) from error
    except ProtocolViolation as error:
        raise UpstreamLost(f"an answer makes no sense: {error.message}", node=node) from error


def _as_log_says(error: ServerError) -> PenstockError:
    """The error that a log would have raised where a broker refused."""
    words = f"RocketMQ says: {error.message}"
    if error.kind is ErrorKind.UNKNOWN_TOPIC:
        return UnknownTopic(words, node=error.node)
    if is_too_large(error):
        return BatchTooLarge(words, node=error.node)
    if error.code == Code.NO_PERMISSION:
        return Unsupported(words, node=error.node, hint="Allow it at the brokers: mqadmin updateTopicPerm")
    if error.retriable:
        return UpstreamLost(words, node=error.node)
    return StoreError(words, node=error.node)
