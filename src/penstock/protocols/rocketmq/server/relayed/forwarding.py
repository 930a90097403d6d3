"""What sessions over real brokers share, and how a request goes on: to which broker, and its answer back."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from penstock._dataclasses import dataclass
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
    """The ``most`` values that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """What is kept of it."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Keep it, instead of what was not used for longest."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def drop(self, key: K) -> None:
        """Keep nothing of it."""
        self._values.pop(key, None)


class RelayedLine(ClientConnection):
    """A client's connection; ``number`` tells it from others, ``turns`` whose turn it is where it names nobody."""

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


@dataclass(slots=True)
class Traffic:
    """Requests that are under way to brokers, ``most`` at once; ``held`` of them are kept there on purpose."""

    most: int
    under_way: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class RelayContext(Connected):
    """``suggested``: which standby a broker sent a group's reads of a queue to; ``checked``: which broker asked about
    a transaction; ``held``: requests that brokers keep on purpose; ``routes``: what name servers last said of a topic,
    for when none answers."""

    relay: RocketRelay
    producers: ProducerGroups
    retry_topics: RetryTopics
    peers: Peers
    traffic: Traffic
    made_groups: MadeGroups
    beside: BackgroundWorker
    held: Shares[object]
    meter: Meter
    ports: BrokerPorts
    suggested: Kept[tuple[str, str, str, str], int] = field(default_factory=lambda: Kept(100_000))
    checked: Kept[tuple[str, str], str] = field(default_factory=lambda: Kept(100_000))
    routes: Kept[str, Route] = field(default_factory=lambda: Kept(1_000))

    def place_of(self, broker: str, asked: RemotingCommand) -> str:
        """Where a client is told that a broker is: here, at its own port if it has one and this client needs it."""
        here = self.services.identity.advertised[_SCHEME]
        return str(Endpoint(here.host, self.ports.port(broker, here.port, needed=names_no_broker(asked))))

    def is_here(self, address: str) -> tuple[bool, str | None]:
        """Whether clients were told this address, and of which broker: None where it is the node's main port."""
        at, identity = endpoint_of(address), self.services.identity
        hosts = {each.host for each in (identity.advertised.get(_SCHEME), identity.reached.get(_SCHEME)) if each}
        if at is None or at.host not in hosts:
            return False, None
        broker, main = self.ports.meaning(at.port), identity.advertised[_SCHEME].port
        return broker is not None or at.port in (main, main - VIP_BELOW), broker

    def count(self, api: int, began: float, answer: Buffers, line: ClientConnection, fields: Mapping[str, str]) -> None:
        """A request that came then, from there and with these ext fields, is answered now."""
        self.meter.answered(api, self.meter.now() - began)
        if code := code_of(answer):
            self.meter.refused(api, code)
            tell(self.meter, self.clients, line, api, fields, code, answer)

    async def task(self) -> None:
        """Go on in a task: what waits for a connection needs one (`Session.at_once`)."""
        turn: Promise[None] = self.services.runtime.promise()
        self.services.runtime.call_later(0, lambda: turn.set(None))
        await turn


# One request's circumstances where the node has a part in it itself, and what brokers say to the node's own.
@dataclass(frozen=True, slots=True)
class RelayedCall(OfConnected):
    """``line`` is the connection of whoever asks."""

    shared: RelayContext
    line: RelayedLine


def agreed(frame: Frame) -> RemotingCommand:
    """The answer to a question of the node's own. Raises Refused in the words of whoever refused it."""
    command = command_of(frame)
    if command.code != Code.SUCCESS:
        raise Refused(command.code, command.remark or "")
    return command


# A request goes on to a broker, and its answer comes back: both with a new number, and their bodies untouched.
#
# What is written at once costs no task (`begin`), everything else is waited for (`finish`).
_log = logging.getLogger("penstock.node")
_HELD_BYTES: Final = 4_000
"""Of one request that is kept at a broker, about."""

Seen = Callable[[RemotingCommand | None], None]
"""Is shown the answer on its way back; None where there is none."""


class Plan(NamedTuple):
    """What goes to which broker, over which connection; ``held_s``: for how long it may keep the answer on purpose.

    ``api`` is what was asked for, where another request is made of it. ``writes``: what is not answered in time may
    be stored yet, so that nobody may be invited to send it again.
    """

    command: RemotingCommand
    broker: Broker
    lane: str
    held_s: float = 0.0
    seen: Seen | None = None
    api: int = -1
    writes: bool = False


def begin(around: RelayContext, line: ClientConnection, plan: Plan) -> Deferred[Buffers] | None:
    """Write it now, if that is possible; its answer comes later. Raises Refused where too much is under way."""
    _check(around)
    later: Deferred[Buffers] = Deferred(around.services.runtime.promise)
    # Only what the answer needs: a request that waits for it holds no body.
    opaque, compact, fields = plan.command.opaque, plan.command.compact, plan.command.fields
    seen, traffic, held, began = plan.seen, around.traffic, plan.held_s > 0, around.meter.now()
    api = plan.command.code if plan.api < 0 else plan.api

    _hold(around, line, plan, later)

    def told(came: Frame | PenstockError) -> None:
        around.held.drop(later)
        traffic.under_way -= 1
        traffic.held -= held
        answer = _answer(opaque, came, seen, compact=compact)
        around.count(api, began, answer, line, fields)
        later.give(answer)

    if not around.relay.begin(
        plan.broker, framed(plan.command), told, lane=plan.lane, held_s=plan.held_s, writes=plan.writes
    ):
        around.held.drop(later)
        return None
    traffic.under_way += 1
    traffic.held += held
    return later


async def finish(around: RelayContext, line: ClientConnection, plan: Plan) -> Buffers | Deferred[Buffers] | None:
    """Write it when its turn has come: its answer, which may come later, or None where it has none. Raises Refused."""
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
        _log.info("a request %d that nobody waits for is lost: %s", command.code, error)
    finally:
        around.traffic.under_way -= 1
    return None


def with_number(command: RemotingCommand, opaque: int) -> Buffers:
    """An answer as it came, for whoever asked under that number. Raises UsageError."""
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
    """Count what a broker keeps on purpose; whoever calls drops ``key``. Raises Refused where it is too much."""
    if plan.held_s > 0 and (full := around.held.put(key, line, _HELD_BYTES)) is not None:
        raise Refused(Code.SYSTEM_BUSY, full)


def _check(around: RelayContext) -> None:
    traffic = around.traffic
    if traffic.under_way >= traffic.most:
        raise Refused(
            Code.SYSTEM_BUSY, f"{traffic.under_way} requests are under way to brokers, more are not taken: try again"
        )


# Requests that concern all brokers, or all name servers: each is asked as it came, and one answer is made of theirs.
#
# It is the first that refuses, else the first. Where one did not answer, the whole is not done: whoever asked asks
# again, and what was done already is the same once more.
PATIENCE_S: Final = 8.0
"""Tools wait longer than clients, and what they ask for takes brokers longer."""


async def all_masters(around: RelayContext, asked: RemotingCommand) -> Buffers:
    """Raises Refused, and what kept a broker from answering."""
    masters = around.relay.brokers.masters()
    if not masters:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
    return _one_of(
        await around.relay.gather([around.relay.ask(each, framed(asked), timeout_s=PATIENCE_S) for each in masters]),
        asked,
    )


async def all_names(around: RelayContext, asked: RemotingCommand) -> Buffers:
    """Raises UpstreamLost where none answers."""
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


# Where topics and brokers are: as name servers say, but every broker is reached at this node. 105, 106.
#
# Clients that name no broker in their requests are told its own port, if it has one here (``server/cluster``). Where an
# operator chose the port, all are: by its version not every client can be told from one that names no broker.
#
# Names, ids and numbers of queues stay what they are, so that requests say which broker they mean. Source: Apache
# RocketMQ 4.9 and 5.x, ``ClientRequestProcessor``; the Proxy's ``ClusterTopicRouteService``.
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
    told = m.read_body(m.ClusterInfo, agreed(frame).body)
    call.shared.relay.told(told)
    table = {name: _here(call, each) for name, each in told.broker_addr_table.items()}
    snodes = info([own(call.shared), *call.shared.snodes.all])
    found = replace(told, broker_addr_table=table, snode_table=snodes.snode_table, snode_cluster=snodes.snode_cluster)
    return Reply(body=m.write_body(found, bare_numbers=True))


async def route_of(around: RelayContext, topic: str) -> m.Route:
    """As a name server says now; as one said last, where none answers. Raises Refused, UpstreamLost."""
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
    """Name servers of 4.x do not say whether a standby acts as master, and clients of 5.x may need to hear it."""
    addresses = dict.fromkeys(broker.broker_addrs, call.shared.place_of(broker.broker_name, call.asked))
    return replace(broker, broker_addrs=addresses, enable_acting_master=bool(broker.enable_acting_master))


# Which broker a request means: as it says, or, of a client too old to say, the one whose port it came to, or the only
# one that has the topic.
#
# A name that nobody knows is looked up once; an address counts if it is that of a known broker. Source: Apache RocketMQ
# 4.9.8 and 5.4 (``n``, ``bname``), the Snode of 2018 (``enodeName``, ``enodeAddr``).
_NAMES: Final = ("bname", "enodeName", "enodeAddr", "brokerName")
_SENT_IN_LETTERS: Final = frozenset({310, 320})
_LOCKS: Final = frozenset({41, 42})
_LANES: Final = 2
_AGAIN_S: Final = 1.0


def meant_by(around: RelayContext, line: RelayedLine, asked: RemotingCommand) -> str | None:
    """The broker that a request names, in one way or another, or by where it came. Raises ProtocolViolation.

    An address of this node names the broker whose port it is; the main one names none.
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
    """The server that serves this; None where it has to be looked up. Raises Refused where it has no master now."""
    name = around.relay.brokers.known(said)
    return None if name is None else _of(around, name, number, standby=standby)


async def looked_up(around: RelayContext, asked: RemotingCommand, said: str | None, *, standby: bool) -> Broker:
    """The same, for a name that is new, or a request that says none. Raises Refused, UpstreamLost."""
    if said is None:
        return _of(around, await _only_home(around, asked), MASTER, standby=standby)
    if not around.relay.looked_within(_AGAIN_S):
        await around.relay.look()
    name = around.relay.brokers.known(said)
    if name is None:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, f"no name server knows a broker {said[:100]!r}")
    return _of(around, name, MASTER, standby=standby)


def next_broker(around: RelayContext, line: RelayedLine, asked: RemotingCommand) -> Broker:
    """Who asks the same again, without a name, asks the next broker: tools ask every address of a cluster once, and all
    of them are this node's. Raises Refused."""
    names = around.relay.brokers.names
    if not names:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a broker")
    what: Hashable = (asked.code, tuple(sorted(asked.fields.items())))
    turn = line.turns.get(what) or 0
    line.turns.put(what, turn + 1)
    return _of(around, names[turn % len(names)], MASTER, standby=True)


def named_or_next(around: RelayContext, line: RelayedLine, asked: RemotingCommand) -> Broker:
    """The broker that a tool names, else the next one. Raises Refused."""
    said = meant_by(around, line, asked)
    name = None if said is None else around.relay.brokers.known(said)
    return next_broker(around, line, asked) if name is None else _of(around, name, MASTER, standby=False)


def lane_of(line: RelayedLine, what: str) -> str:
    """The connection to a broker that a client's requests of a kind share with those of others."""
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
