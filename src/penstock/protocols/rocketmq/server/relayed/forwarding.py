"""Forwarding of requests to brokers and name servers.

`RelayContext` is what the sessions of a front share. `begin` and `finish` forward one request by its `Plan`;
`all_masters` and `all_names` forward it to several servers. `topic_route` and `cluster_brokers` answer with this node's
address for every broker. `meant_by` and its neighbours choose the broker of a request.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.concurrency.background import BackgroundWorker
from penstock.concurrency.limits import Shares
from penstock.concurrency.runtime import Deferred, Promise
from penstock.errors import PenstockError, UpstreamLost, UsageError
from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.front import Meter
from penstock.model import Endpoint
from penstock.protocols.rocketmq.backend.relay import MASTER, Broker, RocketRelay, endpoint_of
from penstock.protocols.rocketmq.errors import Code, Refused, refusal
from penstock.protocols.rocketmq.server.call import ClientConnection, Connected, OfConnected, Reply
from penstock.protocols.rocketmq.server.clients import tell
from penstock.protocols.rocketmq.server.cluster import VIP_BELOW, BrokerPorts, info, names_no_broker, own
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, code_of, command_of, field_of, framed
from penstock.protocols.rocketmq.wire.messages import Route
from penstock.protocols.rocketmq.wire.rpc import GET_BROKER_CLUSTER_INFO, GET_ROUTEINFO_BY_TOPIC, request
from penstock.protocols.rocketmq.wire.rpc import refusal as refused

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.server.relayed.broker_groups import MadeGroups, ProducerGroups, RetryTopics
    from penstock.protocols.rocketmq.server.relayed.peers import Peers

__all__ = [
    "PATIENCE_S",
    "Kept",
    "Plan",
    "RelayContext",
    "RelayedCall",
    "RelayedLine",
    "Traffic",
    "agreed",
    "all_masters",
    "all_names",
    "begin",
    "broker_for",
    "cluster_brokers",
    "finish",
    "lane_of",
    "looked_up",
    "meant_by",
    "named_or_next",
    "next_broker",
    "route_of",
    "topic_route",
    "with_number",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_SCHEME: Final = "rocketmq"
_TURNS: Final = 100


class Kept(Generic[K, V]):
    """A map that keeps the ``most`` recently used values."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key; None if it is not kept."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Set a value; the least recently used one is dropped if there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def drop(self, key: K) -> None:
        """Delete a value."""
        self._values.pop(key, None)


class RelayedLine(ClientConnection):
    """A client's connection. ``number`` identifies it; ``turns`` counts its repeated requests that name no broker."""

    __slots__ = ("number", "turns")

    def __init__(
        self,
        number: int,
        address: Endpoint,
        push: Callable[[Buffers], None],
        hang_up: Callable[[], None],
        broker: str | None = None,
    ) -> None:
        super().__init__(address, push, hang_up)
        self.number = number
        self.broker = broker
        self.turns: Kept[Hashable, int] = Kept(_TURNS)


class Traffic(Struct):
    """Counts of requests under way to brokers, at most ``most``; of these, brokers hold ``held`` on purpose."""

    most: int
    under_way: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class RelayContext(Connected):
    """What the front's sessions share. ``suggested``: the standby to which a broker sent a group's reads of a queue.
    ``checked``: the broker that asked about a transaction. ``held``: limits requests that brokers hold on purpose.
    ``routes``: the last route of each topic, for when no name server answers."""

    relay: RocketRelay
    producers: ProducerGroups
    retry_topics: RetryTopics
    peers: Peers
    traffic: Traffic
    made_groups: MadeGroups
    background: BackgroundWorker
    held: Shares[object]
    meter: Meter
    ports: BrokerPorts
    suggested: Kept[tuple[str, str, str, str], int] = field(default_factory=lambda: Kept(100_000))
    checked: Kept[tuple[str, str], str] = field(default_factory=lambda: Kept(100_000))
    routes: Kept[str, Route] = field(default_factory=lambda: Kept(1_000))

    def place_of(self, broker: str, asked: RemotingCommand) -> str:
        """A broker's address for a client: this node, at the broker's own port if there is one and it is needed."""
        here = self.services.identity.advertised[_SCHEME]
        return str(Endpoint(here.host, self.ports.port(broker, here.port, needed=names_no_broker(asked))))

    def is_here(self, address: str) -> tuple[bool, str | None]:
        """Whether an address is this node's, and the broker of its port; None for the main port."""
        at, identity = endpoint_of(address), self.services.identity
        hosts = {each.host for each in (identity.advertised.get(_SCHEME), identity.reached.get(_SCHEME)) if each}
        if at is None or at.host not in hosts:
            return False, None
        broker, main = self.ports.meaning(at.port), identity.advertised[_SCHEME].port
        return broker is not None or at.port in (main, main - VIP_BELOW), broker

    def count(self, api: int, began: float, answer: Buffers, line: ClientConnection, fields: Mapping[str, str]) -> None:
        """Count an answered request that came at ``began`` on this connection, with these ext fields."""
        self.meter.answered(api, self.meter.now() - began)
        if code := code_of(answer):
            self.meter.refused(api, code)
            tell(self.meter, self.clients, line, api, fields, code, answer)

    async def task(self) -> None:
        """Continue in a task of its own: waiting for a connection needs one (`Session.at_once`)."""
        turn: Promise[None] = self.services.runtime.promise()
        self.services.runtime.call_later(0, lambda: turn.set(None))
        await turn


# Requests in which the node itself takes part, and responses to the node's own requests.
class RelayedCall(OfConnected, frozen=True):
    """The context of such a request; ``line`` is the connection that it came on."""

    shared: RelayContext
    line: RelayedLine


def agreed(frame: Frame) -> RemotingCommand:
    """The response to a request of the node's own. Raises Refused with the code and text of an error response."""
    command = command_of(frame)
    if command.code != Code.SUCCESS:
        raise Refused(command.code, command.remark or "")
    return command


# Forwarding one request: request and response get a new number each, their bodies are untouched.
#
# `begin` forwards without a task if the request can be written at once; `finish` awaits whatever else is needed.
_log = logging.getLogger("penstock.node")
_HELD_BYTES: Final = 4_000
"""Bytes of one request that a broker holds, roughly."""

Seen = Callable[[RemotingCommand | None], None]
"""Called with the response on its way back; with None if there is none."""


class Plan(NamedTuple):
    """How to forward a request: to which broker, on which connection, and how long the broker may hold it (``held_s``).

    ``api`` is the client's request code if the forwarded request is another one. ``writes``: without a response in time
    the request may still be carried out, so the client must not be asked to send it again.
    """

    command: RemotingCommand
    broker: Broker
    lane: str
    held_s: float = 0.0
    seen: Seen | None = None
    api: int = -1
    writes: bool = False


def begin(around: RelayContext, line: ClientConnection, plan: Plan) -> Deferred[Buffers] | None:
    """Write the request now, if possible; the response comes later. Raises Refused if too much is under way."""
    _check(around)
    later: Deferred[Buffers] = Deferred(around.services.runtime.promise)
    # The callback keeps only what the response needs, so that waiting requests hold no body.
    opaque, compact, fields = plan.command.opaque, plan.command.compact, plan.command.fields
    seen, traffic, held, began = plan.seen, around.traffic, plan.held_s > 0, around.meter.now()
    api = plan.command.code if plan.api < 0 else plan.api

    _hold(around, line, plan, later)

    def answered(came: Frame | PenstockError) -> None:
        around.held.drop(later)
        traffic.under_way -= 1
        traffic.held -= held
        answer = _answer(opaque, came, seen, compact=compact)
        around.count(api, began, answer, line, fields)
        later.give(answer)

    if not around.relay.begin(
        plan.broker, framed(plan.command), answered, lane=plan.lane, held_s=plan.held_s, writes=plan.writes
    ):
        around.held.drop(later)
        return None
    traffic.under_way += 1
    traffic.held += held
    return later


async def finish(around: RelayContext, line: ClientConnection, plan: Plan) -> Buffers | Deferred[Buffers] | None:
    """Write the request, waiting as needed. Returns the response, now or later, or None for one-way. Raises Refused."""
    _check(around)
    command, relay = plan.command, around.relay
    around.traffic.under_way += 1
    try:
        if not command.is_one_way:
            await relay.open(plan.broker, plan.lane)
            later = begin(around, line, plan)
            if later is not None:
                return later
            _hold(around, line, plan, plan)
            try:
                came = await relay.ask(
                    plan.broker, framed(command), lane=plan.lane, held_s=plan.held_s, writes=plan.writes
                )
            finally:
                around.held.drop(plan)
            return _answer(command.opaque, came, plan.seen, compact=command.compact)
        await relay.tell(plan.broker, framed(command), lane=plan.lane)
    except UpstreamLost as error:
        if not command.is_one_way:
            return _answer(command.opaque, error, plan.seen, compact=command.compact)
        _log.info("a one-way request %d is lost: %s", command.code, error)
    finally:
        around.traffic.under_way -= 1
    return None


def with_number(command: RemotingCommand, opaque: int) -> Buffers:
    """A response with its client's number, otherwise unchanged. Raises UsageError."""
    return framed(command)(opaque)


def _answer(opaque: int, came: Frame | PenstockError, seen: Seen | None, *, compact: bool) -> Buffers:
    if isinstance(came, PenstockError):
        if seen is not None:
            seen(None)
        said = refusal(came)
        return refused(RemotingCommand(0, opaque, compact=compact), said.code, said.message)
    command = command_of(came)
    try:
        if seen is not None:
            seen(command)
        return with_number(command, opaque)
    except PenstockError as error:
        to = RemotingCommand(0, opaque, compact=compact)
        return refused(to, Code.SYSTEM_ERROR, f"a broker's answer cannot be handed on: {error.message}")


def _hold(around: RelayContext, line: ClientConnection, plan: Plan, key: object) -> None:
    """Count a request that the broker holds on purpose; the caller drops ``key``. Raises Refused above the limit."""
    if plan.held_s > 0 and (full := around.held.put(key, line, _HELD_BYTES)) is not None:
        raise Refused(Code.SYSTEM_BUSY, full)


def _check(around: RelayContext) -> None:
    traffic = around.traffic
    if traffic.under_way >= traffic.most:
        raise Refused(
            Code.SYSTEM_BUSY, f"{traffic.under_way} requests are under way to brokers, more are not taken: try again"
        )


# Requests for all masters or all name servers: each gets the request unchanged, and one of the responses is returned.
#
# It is the first error response, else the first response. If a server does not answer, the request fails as a whole;
# the client repeats it, and doing the rest twice makes no difference.
PATIENCE_S: Final = 8.0
"""Tools wait longer than clients, and brokers take longer over their requests."""


async def all_masters(around: RelayContext, asked: RemotingCommand) -> Buffers:
    """Ask all masters. Raises Refused, and the error of a broker that did not answer."""
    masters = around.relay.brokers.masters()
    if not masters:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
    return _one_of(
        await around.relay.gather([around.relay.ask(each, framed(asked), timeout_s=PATIENCE_S) for each in masters]),
        asked,
    )


async def all_names(around: RelayContext, asked: RemotingCommand) -> Buffers:
    """Ask all name servers. Raises UpstreamLost if none answers."""
    return _one_of(await around.relay.ask_all_names(framed(asked)), asked)


def _one_of(found: Sequence[Frame | BaseException], asked: RemotingCommand) -> Buffers:
    answers: list[RemotingCommand] = []
    for each in found:
        if isinstance(each, Frame):
            answers.append(command_of(each))
        else:
            raise each
    refusing = [each for each in answers if each.code != Code.SUCCESS]
    return with_number((refusing or answers)[0], asked.opaque)


# Routes and brokers (105, 106): as name servers report them, but with this node's address for every broker.
#
# Clients that name no broker in their requests get the broker's own port here, if it has one (``server/cluster``). If
# an operator chose the port, all clients get it: a client's version does not always show whether it names brokers.
#
# Names, ids and queue numbers are unchanged, so that requests name the broker that they mean. Source: Apache RocketMQ
# 4.9 and 5.x, ``ClientRequestProcessor``; the Proxy's ``ClusterTopicRouteService``.
_STANDARD_JSON_FROM: Final = 401


async def topic_route(call: RelayedCall, header: m.GetRoute) -> Reply:
    """Serve get route info."""
    found = await route_of(call.shared, header.topic)
    brokers = tuple(_here(call, each) for each in found.broker_datas)
    standard = call.asked.version >= _STANDARD_JSON_FROM or bool(header.accept_standard_json_only)
    return Reply(body=m.write_body(replace(found, broker_datas=brokers), bare_numbers=not standard))


async def cluster_brokers(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve get broker cluster info."""
    del header
    frame = await call.shared.relay.ask_names(request(GET_BROKER_CLUSTER_INFO, m.NoFields()))
    known = m.read_body(m.ClusterInfo, agreed(frame).body)
    call.shared.relay.set_cluster(known)
    table = {name: _here(call, each) for name, each in known.broker_addr_table.items()}
    snodes = info([own(call.shared), *call.shared.snodes.all])
    found = replace(known, broker_addr_table=table, snode_table=snodes.snode_table, snode_cluster=snodes.snode_cluster)
    return Reply(body=m.write_body(found, bare_numbers=True))


async def route_of(around: RelayContext, topic: str) -> m.Route:
    """The route from a name server; the last known one if none answers. Raises Refused, UpstreamLost."""
    try:
        frame = await around.relay.ask_names(request(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic=topic)))
    except UpstreamLost:
        known = around.routes.get(topic)
        if known is None:
            raise
        return known
    found = m.read_body(m.Route, agreed(frame).body)
    around.routes.put(topic, found)
    return found


def _here(call: RelayedCall, broker: m.BrokerData) -> m.BrokerData:
    """This node's address for a broker. Name servers of 4.x omit the acting master flag; clients of 5.x may need it."""
    addresses = dict.fromkeys(broker.broker_addrs, call.shared.place_of(broker.broker_name, call.asked))
    return replace(broker, broker_addrs=addresses, enable_acting_master=bool(broker.enable_acting_master))


# The broker of a request: the one that it names; for clients too old to name one, the broker of the port that they are
# connected to, or the only broker that has the topic.
#
# An unknown name is looked up once; an address counts if it is a known broker's. Source: Apache RocketMQ 4.9.8 and 5.4
# (``n``, ``bname``), the Snode of 2018 (``enodeName``, ``enodeAddr``).
_NAMES: Final = ("bname", "enodeName", "enodeAddr", "brokerName")
_SENT_IN_LETTERS: Final = frozenset({310, 320})
_LOCKS: Final = frozenset({41, 42})
_LANES: Final = 2
_AGAIN_S: Final = 1.0


def meant_by(around: RelayContext, line: RelayedLine, asked: RemotingCommand) -> str | None:
    """The broker that a request names, or that its connection stands for; None for neither. Raises ProtocolViolation.

    An address of this node means the broker of its port; the main port means none.
    """
    return _said_by(around, asked) or line.broker


def _said_by(around: RelayContext, asked: RemotingCommand) -> str | None:
    if asked.code in _SENT_IN_LETTERS and (name := field_of(asked, "n")) and (name := _named(around, name)):
        return name
    for key in _NAMES:
        if (name := asked.fields.get(key)) and (name := _named(around, name)):
            return name
    if asked.code in _LOCKS:
        queues = m.read_body(m.LockQueues, asked.body).mq_set
        return queues[0].broker_name if queues else None
    return None


def _named(around: RelayContext, said: str) -> str | None:
    if ":" not in said:
        return said
    here, broker = around.is_here(said)
    return broker if here else said


def broker_for(around: RelayContext, said: str, *, number: int = MASTER, standby: bool) -> Broker | None:
    """The server of a named broker; None if the name has to be looked up. Raises Refused if it has no master now."""
    name = around.relay.brokers.known(said)
    return None if name is None else _of(around, name, number, standby=standby)


async def looked_up(around: RelayContext, asked: RemotingCommand, said: str | None, *, standby: bool) -> Broker:
    """The server of a new name, or of a request without one. Raises Refused, UpstreamLost."""
    if said is None:
        return _of(around, await _only_home(around, asked), MASTER, standby=standby)
    if not around.relay.looked_within(_AGAIN_S):
        await around.relay.look()
    name = around.relay.brokers.known(said)
    if name is None:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, f"no name server knows a broker {said[:100]!r}")
    return _of(around, name, MASTER, standby=standby)


def next_broker(around: RelayContext, line: RelayedLine, asked: RemotingCommand) -> Broker:
    """The broker of a request that names none and may go to any. A client that repeats a request gets the next broker:
    tools ask every address of a cluster once, and all of them are this node's. Raises Refused."""
    names = around.relay.brokers.names
    if not names:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a broker")
    what: Hashable = (asked.code, tuple(sorted(asked.fields.items())))
    turn = line.turns.get(what) or 0
    line.turns.put(what, turn + 1)
    return _of(around, names[turn % len(names)], MASTER, standby=True)


def named_or_next(around: RelayContext, line: RelayedLine, asked: RemotingCommand) -> Broker:
    """The broker that a tool's request names, else the next one. Raises Refused."""
    said = meant_by(around, line, asked)
    name = None if said is None else around.relay.brokers.known(said)
    return next_broker(around, line, asked) if name is None else _of(around, name, MASTER, standby=False)


def lane_of(line: RelayedLine, what: str) -> str:
    """The connection to a broker that a client's requests of one kind share with those of other clients."""
    return f"{what}-{line.number % _LANES}"


async def _only_home(around: RelayContext, asked: RemotingCommand) -> str:
    topic = asked.fields.get("b") or asked.fields.get("topic") or asked.fields.get("originTopic")
    names = around.relay.brokers.names
    if len(names) != 1 and topic is not None:
        try:
            names = [each.broker_name for each in (await route_of(around, topic)).broker_datas]
        except PenstockError as error:
            raise Refused(Code.TOPIC_NOT_EXIST, f"no route of topic {topic[:127]!r}: {error.message}") from error
    if len(names) != 1:
        raise Refused(
            Code.VERSION_NOT_SUPPORTED,
            f"the request names no broker (bname), and {len(names)} come into question: clients do so from 4.9.5 and "
            "5.0.1 on; others have to come to a broker's own port (rocketmq_broker_ports)",
        )
    return names[0]


def _of(around: RelayContext, name: str, number: int, *, standby: bool) -> Broker:
    try:
        return around.relay.brokers.of(name, number, standby=standby)
    except UsageError as error:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, error.message) from error
