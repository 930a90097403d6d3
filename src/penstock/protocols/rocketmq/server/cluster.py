"""The cluster of one broker that the node is to RocketMQ's clients.

`RocketFrontOptions` are the front's options. `Cluster` has the name, address and topics. `Snodes` are the registered
Snodes. `BrokerPorts` and `open_vip_port` open further ports next to the listener's.
"""

from __future__ import annotations

import ipaddress
import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.concurrency.limits import Shares
from penstock.errors import TopicExists
from penstock.interfaces.enode import TopicState
from penstock.interfaces.front import OpenDoor, Opens
from penstock.interfaces.node import Services
from penstock.model import Endpoint, Partition
from penstock.protocols.rocketmq.config import DEAD_LETTER, RETRY
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.log_records import is_hidden, log_name, rocket_name
from penstock.protocols.rocketmq.wire.message_format import Host, offset_id

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.server.call import ClientConnection, Connected
    from penstock.protocols.rocketmq.server.ledger import Settings

__all__ = [
    "TEMPLATE",
    "VIP_BELOW",
    "BrokerPorts",
    "Cluster",
    "RocketFrontOptions",
    "Snodes",
    "info",
    "names_no_broker",
    "open_vip_port",
    "own",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketFrontOptions:
    """An operator's options of the RocketMQ front. Defaults are those of RocketMQ's brokers where they have the option.

    ``cluster``: the cluster's name that clients see. ``auto_create_topics``: a send creates its topic if it does not
    exist, with as many queues as the producer asks for, at most ``template_queues``.

    ``snode_name``: the node's name among Snodes; if empty, it is made of node id and address. ``register_snode_ms``:
    how often a node in front of a cluster registers as a Snode at its name servers; 0 for never.

    ``client_timeout_ms``: a client that has sent no heartbeat for this long leaves its groups; clients send one every
    30 s. ``lock_timeout_ms``: an orderly consumer's lock on a queue expires unless it is renewed in this time.
    ``max_clients``: memberships of connections in groups, over all groups. ``max_locks``: queues locked at once.
    ``max_held``: pulls waiting for messages at once. One connection may have a twentieth of each of these, one address
    ``address_share_percent``.

    ``housekeeping_ms``: how often silent clients are looked for. ``notify_members``: the node notifies members when
    others join or leave; without it, members notice at their own next look. ``auto_create_groups``: any group name is
    valid; if off, only groups created by 200 are, and requests that would make brokers create a group are refused.
    ``producer_beat_ms``: how often brokers learn which producer groups they may ask here about transactions.

    ``accounts``: clients' access keys and secrets; if there are any, all clients have to sign.
    ``flow_requests`` and ``flow_kilobytes``: limits per second (`Flow` in ``server/call``).

    ``transfer_messages`` and ``transfer_bytes``: the most that one pull response carries; a single larger message is
    sent all the same. ``examined_messages``: the most messages that one pull examines for a filter.
    ``max_hold_ms``: the longest time for which a pull is held, whatever its client asks for.
    ``max_message_bytes``: the limit of a message's body as it is sent.

    ``retries``: redeliveries of a message that a group failed on. ``delay_scale``: factor on the times of delay levels.
    ``check_every_ms``: how often half messages are examined; producers are asked about those older than
    ``transaction_timeout_ms``, at most ``transaction_checks`` times. ``max_under_way``: in front of real brokers, the
    requests over all clients that brokers have not answered yet; a held pull is one, and takes about 4 KB.
    ``peers``: addresses of the cluster's other Snodes. ``finds_peers``: name servers are asked for them, too, and this
    Snode registers there. ``broker_ports``: the port that clients get for a broker; a request that arrives there and
    names no broker is for that one.
    """

    cluster: str = "DefaultCluster"
    snode_name: str = ""
    register_snode_ms: int = 30_000
    auto_create_topics: bool = True
    template_queues: int = 8
    client_timeout_ms: int = 120_000
    lock_timeout_ms: int = 60_000
    max_clients: int = 20_000
    max_locks: int = 100_000
    max_held: int = 50_000
    address_share_percent: int = 50
    housekeeping_ms: int = 10_000
    notify_members: bool = True
    auto_create_groups: bool = True
    producer_beat_ms: int = 15_000
    accounts: Mapping[str, str] = field(default_factory=dict, repr=False)
    flow_requests: Mapping[str, int] = field(default_factory=dict)
    flow_kilobytes: Mapping[str, int] = field(default_factory=dict)
    transfer_messages: int = 32
    transfer_bytes: int = 256 << 10
    examined_messages: int = 800
    max_hold_ms: int = 60_000
    max_message_bytes: int = 4 << 20
    retries: int = 16
    delay_scale: float = 1.0
    max_under_way: int = 50_000
    check_every_ms: int = 10_000
    transaction_timeout_ms: int = 6_000
    transaction_checks: int = 15
    peers: tuple[Endpoint, ...] = ()
    finds_peers: bool = True
    broker_ports: Mapping[str, int] = field(default_factory=dict)


TEMPLATE: Final = "TBW102"
"""The template topic: producers name it when they want a new topic to be created."""

_SCHEME: Final = "rocketmq"
_NO_ADDRESS: Final = b"\0\0\0\0"
_INHERIT: Final = int(m.Perm.INHERIT)


class Cluster:
    """The node's cluster; ``broker`` is the name of its only broker, ``name`` the cluster's."""

    def __init__(self, services: Services, options: RocketFrontOptions, settings: Settings) -> None:
        self._services = services
        self._options = options
        self._settings = settings
        self._host: Host | None = None
        self._id_begin = ""
        self.name = options.cluster
        self.broker = f"penstock-{services.identity.node_id}"

    @property
    def address(self) -> str:
        """``host:port`` of the broker, which is also the name server."""
        return str(self._services.identity.advertised[_SCHEME])

    @property
    def host(self) -> Host:
        """The same address as message ids carry it; they have no space for host names."""
        if self._host is None:
            at = self._services.identity.advertised[_SCHEME]
            self._host = Host(_packed(at.host), at.port)
        return self._host

    def message_id(self, place: int) -> str:
        """The id of a stored message, by its place; it has the form of `message_format.offset_id`."""
        if not self._id_begin:
            self._id_begin = offset_id(self.host, 0)[:-16]
        return f"{self._id_begin}{place:016X}"

    # Topics.

    async def topics(self) -> list[TopicState]:
        """All topics that clients may see."""
        return [topic for topic in await self._services.enode.topics() if not is_hidden(topic.name)]

    async def names(self) -> list[str]:
        """RocketMQ's names of the topics that clients may see."""
        return [rocket_name(topic.name) for topic in await self.topics()]

    async def topic(self, name: str) -> TopicState | None:
        """A topic that clients may see, by RocketMQ's name; None if there is none."""
        inner = log_name(name)
        return None if is_hidden(inner) else await self._services.enode.topic(inner)

    async def known(self, name: str) -> TopicState:
        """A topic that must exist. Raises Refused (TOPIC_NOT_EXIST)."""
        topic = await self.topic(name)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        return topic

    async def queue(self, name: str, number: int) -> Partition:
        """A queue that must exist. Raises Refused."""
        topic = await self.known(name)
        if not 0 <= number < topic.partitions:
            raise Refused(
                Code.INVALID_PARAMETER, f"queueId[{number}] is illegal, topic:[{name}] has {topic.partitions} queues"
            )
        return Partition(topic.name, number)

    async def ensure(self, name: str, queues: int) -> TopicState:
        """A topic, created if it does not exist. Raises Refused."""
        inner = log_name(name)
        if is_hidden(inner):
            raise Refused(Code.NO_PERMISSION, f"topic[{name}] is the node's own")
        enode = self._services.enode
        topic = await enode.topic(inner)
        while topic is None:
            try:
                return await enode.create_topic(inner, queues, {})
            except TopicExists:  # created concurrently
                topic = await enode.topic(inner)
        return topic

    async def written(self, name: str, template: str, queues: int) -> TopicState:
        """The topic of a send, created if its producer may create it. Raises Refused (TOPIC_NOT_EXIST)."""
        inner = log_name(name)
        topic = None if is_hidden(inner) else await self._services.enode.topic(inner)
        if topic is not None:
            return topic
        if name.startswith((RETRY, DEAD_LETTER)):
            return await self.ensure(name, 1)
        if template == TEMPLATE:
            most, perm = self._options.template_queues if self._options.auto_create_topics else 0, None
        else:
            most, perm = await self._offers(template)
        if not most:
            raise Refused(Code.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        made = await self.ensure(name, max(1, min(queues, most)))
        if perm is not None and perm != self._settings.queues(made).perm:
            await self._settings.set_topic(made, replace(self._settings.topic(made), perm=perm))
        return made

    async def _offers(self, template: str) -> tuple[int, int | None]:
        """How many queues a topic created after this template gets (0: none may be created), and its permission."""
        topic = await self.topic(template)
        if topic is None:
            return 0, None
        found = self._settings.queues(topic)
        return (found.write, found.perm & ~_INHERIT) if found.perm & _INHERIT else (0, None)


def _packed(host: str) -> bytes:
    if host == "localhost":
        host = "127.0.0.1"
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return _NO_ADDRESS


# The node is a name server to its clients, and Snodes register there; the node is one of them.
#
# A Snode is forgotten when its connection is gone or after two minutes of silence, as brokers are at name servers. The
# name server of the first Snode project never forgot any. Source: the Snode of 2018 and 2019, ``RouteInfoManager``.
_SILENT_S: Final = 120.0
_MOST: Final = 1_000
_LONGEST: Final = 255
_SNODE_BYTES: Final = 2_000


class _Registered(Struct):
    said: m.SnodeData
    line: ClientConnection
    seen: float


class Snodes:
    """The Snodes that one front knows, by name. Times are seconds of a monotonic clock.

    ``elsewhere`` are the Snodes that other name servers reported last, if this node asks some.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Registered] = {}
        self._shares: Shares[str] = Shares("Snodes registered", "fixed", _MOST)
        self.elsewhere: tuple[m.SnodeData, ...] = ()

    def register(self, line: ClientConnection, said: m.RegisterSnode, now: float) -> None:
        """Add a Snode; one that is already known by this name has moved. Raises Refused."""
        for text in (said.snode_name, said.snode_addr, said.cluster_name):
            if not 0 < len(text) <= _LONGEST:
                raise Refused(Code.SYSTEM_ERROR, f"a Snode's name, address or cluster has {len(text)} letters")
        if (full := self._shares.put(said.snode_name, line, _SNODE_BYTES)) is not None:
            raise Refused(Code.SYSTEM_BUSY, full)
        data = m.SnodeData(snode_name=said.snode_name, address=said.snode_addr, cluster_name=said.cluster_name)
        self._known[said.snode_name] = _Registered(data, line, now)

    def lost(self, line: ClientConnection) -> None:
        """A connection is gone: forget the Snodes that registered over it last."""
        self._keep(each for each in self._known.values() if each.line is not line)

    def expire(self, now: float) -> None:
        """Forget silent Snodes."""
        self._keep(each for each in self._known.values() if each.seen >= now - _SILENT_S)

    @property
    def all(self) -> list[m.SnodeData]:
        """All Snodes; of two with one name, the one registered here comes last."""
        return [*self.elsewhere, *(each.said for each in self._known.values())]

    def _keep(self, kept: Iterable[_Registered]) -> None:
        before = self._known.keys()
        self._known = {each.said.snode_name: each for each in kept}
        for name in before - self._known.keys():
            self._shares.drop(name)


def own(shared: Connected) -> m.SnodeData:
    """This node's own entry."""
    identity, options = shared.services.identity, shared.options
    address = str(identity.advertised[_SCHEME])
    name = options.snode_name or f"penstock-{identity.node_id}@{address}"
    return m.SnodeData(snode_name=name, address=address, cluster_name=options.cluster)


def info(snodes: Iterable[m.SnodeData], cluster: str | None = None) -> m.SnodeClusterInfo:
    """The body of an answer, of one cluster or of all; of two Snodes with one name the last one counts."""
    table = {each.snode_name: each for each in snodes if cluster is None or each.cluster_name == cluster}
    clusters: dict[str, tuple[str, ...]] = {}
    for name, each in table.items():
        clusters[each.cluster_name] = (*clusters.get(each.cluster_name, ()), name)
    return m.SnodeClusterInfo(snode_table=table, snode_cluster=clusters)


# Further ports next to the listener's: the VIP port, and a port for each broker of a cluster.
#
# Java's clients before 4.5 send to the port two below a broker's (``vipChannelEnabled``), so the node has to listen
# there. Clients that name no broker in their requests rely on the address that they connect to, so in front of several
# brokers each gets a port. It is computed from the broker's name alone: clients remember for half a minute what a port
# means, and it must not mean another broker after a restart. If two names lead to one port, neither gets it, and
# ``rocketmq_broker_ports`` has to choose.
#
# Source: Apache RocketMQ 4.4, ``MixAll.brokerVIPChannel``; rocketmq-client-go 2.1.2 and ali-ons name no broker.
_log = logging.getLogger("penstock.node")
VIP_BELOW: Final = 2
_APART: Final = 4
"""Distance of brokers' ports: no port may be another broker's VIP port, nor the listener's."""
_PORTS: Final = 1_000
_HIGHEST: Final = 65_535
_NAMES_BROKERS: Final = frozenset({"JAVA", "PYTHON", "RUST"})
"""Clients in other languages count versions of their own. PYTHON is penstock's, and RUST follows Java's 5.x."""
_NAMES_BROKERS_FROM: Final = 403
"""4.9.5."""


async def open_vip_port(open_at: OpenDoor, port: int, who: Opens, taken: Collection[int] = ()) -> None:
    """Listen two below ``port``, if that port is free; ``who`` serves its connections."""
    vip = port - VIP_BELOW
    if vip <= 0:
        return
    why: object = "it is another broker's"
    if vip not in taken:
        try:
            await open_at(vip, who)
        except OSError as error:
            why = error.strerror or error
        else:
            return
    _log.warning(
        "cannot listen on port %d, two below RocketMQ's %d: Java's clients before 4.5 send there unless they say "
        "vipChannelEnabled=false: %s",
        vip,
        port,
        why,
    )


def names_no_broker(asked: RemotingCommand) -> bool:
    """Whether a client's requests name no broker, as far as its language and version show."""
    return asked.language not in _NAMES_BROKERS or asked.version < _NAMES_BROKERS_FROM


class BrokerPorts:
    """Which port stands for which broker. ``given`` are the ports that an operator chose; all clients get these.

    ``door`` makes the server of a broker's port.
    """

    def __init__(self, given: Mapping[str, int], door: Callable[[str], Opens]) -> None:
        self._given = given
        self._door = door
        self._own: dict[str, int] = {}
        self._lacking: set[str] = set()
        self._meant = {port - below: name for name, port in given.items() for below in (0, VIP_BELOW)}
        self._meant |= {port: name for name, port in given.items()}
        self._main = 0
        self._open_at: OpenDoor | None = None

    async def open(self, open_at: OpenDoor, main: int, who: Opens) -> None:
        """Open the VIP ports of all open ports, as far as they are free. Call it once the listener is at ``main``."""
        self._main, self._open_at = main, open_at
        given = set(self._given.values())
        await open_vip_port(open_at, main, who, given)
        for name, port in self._given.items():
            await open_vip_port(open_at, port, self._door(name), given | {main})

    async def keep_up(self, names: Collection[str]) -> None:
        """Open a port for each of several brokers that has none yet. A port that cannot be opened is logged once, and
        tried again with the next call."""
        open_at = self._open_at
        if open_at is None or len(names) < 2:
            return
        wanted = {name: _port_of(self._main, name) for name in names if name not in self._given}
        for name, port in sorted(wanted.items()):
            if name in self._own:
                continue
            if list(wanted.values()).count(port) > 1 or port in self._meant:
                self._lacks(name, port, "another broker's name leads to it, too")
                continue
            try:
                await open_at(port, self._door(name))
            except OSError as error:
                self._lacks(name, port, error.strerror or error)
                continue
            self._own[name] = port
            self._meant[port] = self._meant[port - VIP_BELOW] = name
            _log.info("RocketMQ clients that name no broker reach %s at port %d", name, port)
            await open_vip_port(open_at, port, self._door(name))

    def port(self, name: str, main: int, *, needed: bool) -> int:
        """The port that clients get for a broker; ``needed``: the client names no broker, so the port has to."""
        own = self._own.get(name, main) if needed else main
        return self._given.get(name, own)

    def meaning(self, port: int) -> str | None:
        """The broker that a port of this node, or its VIP port, stands for; None for no particular one."""
        return self._meant.get(port)

    def _lacks(self, name: str, port: int, why: object) -> None:
        if name in self._lacking:
            return
        self._lacking.add(name)
        _log.warning(
            "RocketMQ clients that name no broker do not reach %s: port %d cannot be had, choose one with "
            "rocketmq_broker_ports: %s",
            name,
            port,
            why,
        )


def _port_of(main: int, name: str) -> int:
    port = main + _APART * (1 + zlib.crc32(name.encode()) % _PORTS)
    return port if port <= _HIGHEST else port - 2 * _APART * (_PORTS + 1)
