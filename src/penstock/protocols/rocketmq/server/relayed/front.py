"""The front over real brokers.

`RelayedFront` makes sessions, starts and stops their shared parts, and receives brokers' questions. `Registering`
registers the node as a Snode at name servers. `BrokerDoor` serves a port that stands for one broker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import count
from typing import Final

from penstock.concurrency.background import BackgroundWorker
from penstock.concurrency.limits import Shares
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout
from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.front import Front, OpenDoor, Peer
from penstock.interfaces.node import Services
from penstock.model import Endpoint
from penstock.protocols.rocketmq.backend.relay import RocketRelay
from penstock.protocols.rocketmq.server.call import IDLE_S
from penstock.protocols.rocketmq.server.clients import Clients, meter_of
from penstock.protocols.rocketmq.server.cluster import BrokerPorts, RocketFrontOptions, own
from penstock.protocols.rocketmq.server.relayed.broker_groups import MadeGroups, ProducerGroups, RetryTopics
from penstock.protocols.rocketmq.server.relayed.forwarding import RelayContext, Traffic
from penstock.protocols.rocketmq.server.relayed.peer_groups import Union
from penstock.protocols.rocketmq.server.relayed.peers import SILENT_S, Finding, Peers
from penstock.protocols.rocketmq.server.relayed.session import RelayedSession, pass_on_check
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import command_of
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_TRANSACTION_STATE,
    GET_SNODE_CLUSTER_INFO,
    REGISTER_SNODE,
    read_answer,
    request,
)

__all__ = ["BrokerDoor", "Registering", "RelayedFront", "peers_of"]

# Registration as a Snode at name servers (350), which also tell the node about other Snodes (353).
#
# Stock name servers know neither code: those of 5.x refuse, those of 4.9 do not answer. Both are left alone for ten
# minutes then. The node uses a connection of its own for this, because a name server that knows the code forgets the
# Snode with its connection: there is no request that unregisters. Source: the Snode of 2018 and 2019,
# ``ScheduledService``, ``NnodeServiceImpl``.
_log = logging.getLogger("penstock.node")

_FIRST_S: Final = 0.5
"""The node's own address is known once it listens."""
_LEFT_ALONE_S: Final = 600.0
_LANE: Final = "snode"


class Registering:
    """Registers one front's node at name servers."""

    def __init__(self, around: RelayContext) -> None:
        self._around = around
        self._again_at: dict[Endpoint, float] = {}
        self._knows: set[Endpoint] = set()
        self._reported: dict[Endpoint, tuple[m.SnodeData, ...]] = {}

    async def for_ever(self, every_s: float) -> None:
        """Register in a loop, at each name server independently of the others."""
        relay, runtime = self._around.relay, self._around.services.runtime
        await runtime.sleep(_FIRST_S)
        while True:
            due = [each for each in relay.names if self._again_at.get(each, 0.0) <= self._around.now]
            await relay.gather([self._register(each) for each in due])
            others = {each.snode_name: each for known in self._reported.values() for each in known}
            others.pop(own(self._around).snode_name, None)
            self._around.snodes.elsewhere = tuple(others.values())
            await runtime.sleep(every_s)

    async def _register(self, name: Endpoint) -> None:
        relay, said = self._around.relay, own(self._around)
        header = m.RegisterSnode(snode_name=said.snode_name, snode_addr=said.address, cluster_name=said.cluster_name)
        try:
            frame = await relay.ask_name(name, request(REGISTER_SNODE, header), lane=_LANE)
            read_answer(REGISTER_SNODE, frame)
            self._knows.add(name)
            frame = await relay.ask_name(name, request(GET_SNODE_CLUSTER_INFO, m.NoFields()), lane=_LANE)
            known = m.read_body(m.SnodeClusterInfo, read_answer(GET_SNODE_CLUSTER_INFO, frame).body)
            self._reported[name] = tuple(known.snode_table.values())
        except PenstockError as error:
            self._failed(name, error)

    def _failed(self, name: Endpoint, error: PenstockError) -> None:
        """Retry with the next round if the server is unreachable or has known the code before; else after a pause."""
        if isinstance(error, ConnectionLost) or (isinstance(error, RequestTimeout) and name in self._knows):
            _log.debug("this Snode is not registered at name server %s, will try again: %s", name, error)
            return
        if name not in self._again_at:
            _log.info("name server %s keeps no Snodes, clients that look for them there find none: %s", name, error)
        self._again_at[name] = self._around.now + _LEFT_ALONE_S
        self._knows.discard(name)
        self._reported.pop(name, None)


# The part that connects a node to other Snodes.
_ID_BYTES: Final = 12


def peers_of(services: Services, options: RocketFrontOptions, relay: RocketRelay, clients: Clients) -> Peers:
    """The `Peers` of a front; it asks other Snodes from `Peers.start` on."""
    runtime = services.runtime
    union = Union(
        runtime.random_bytes(_ID_BYTES).hex(),
        timeout_s=options.client_timeout_ms / 1_000,
        silent_s=SILENT_S,
        most=options.max_clients,
        now=runtime.monotonic(),
    )
    finding = Finding(relay, options.peers, asks=options.finds_peers)
    return Peers(relay, clients, runtime, finding, union, services.identity)


class RelayedFront(Front):
    """The front of a node before a RocketMQ cluster (``penstock.interfaces.front.Front``)."""

    def __init__(self, services: Services, options: RocketFrontOptions, relay: RocketRelay) -> None:
        self._sessions: set[RelayedSession] = set()
        self._numbers = count()
        self._runtime = runtime = services.runtime
        clients = Clients(
            Shares(
                "places in groups",
                "rocketmq_max_clients",
                options.max_clients,
                services.memory,
                options.address_share_percent,
            ),
            options.client_timeout_ms / 1_000,
            notify=options.notify_members,
        )
        background = BackgroundWorker(runtime, services.memory)
        made = MadeGroups(relay, runtime, background, everything=options.auto_create_groups)
        who = f"penstock-{services.identity.node_id}@{runtime.random_bytes(4).hex()}"
        clients.may_notify = lambda group: group not in made.silent
        traffic = Traffic(options.max_under_way)
        self.around = RelayContext(
            services,
            options,
            clients,
            relay,
            ProducerGroups(relay, clients, runtime, who, options.producer_beat_ms / 1_000),
            RetryTopics(relay, runtime, made),
            peers_of(services, options, relay, clients),
            traffic,
            made,
            background,
            Shares(
                "held requests", "rocketmq_max_held", options.max_held, services.memory, options.address_share_percent
            ),
            meter_of(services, clients, lambda: traffic.held),
            BrokerPorts(options.broker_ports, lambda broker: BrokerDoor(self, broker)),
        )
        relay.hear(self._heard)

    @property
    def idle_timeout_s(self) -> float:
        """``penstock.interfaces.front.Front``."""
        return IDLE_S

    @property
    def siblings(self) -> int:
        """How many other Snodes are known."""
        return len(self.around.peers.union.others)

    @property
    def scheme(self) -> str:
        return "rocketmq"

    async def start(self) -> None:
        """Ask brokers and other Snodes for groups, then start the background tasks. Clients' own heartbeats follow
        within half a minute."""
        await self.around.made_groups.keep_up()
        await self.around.peers.start()
        self._runtime.spawn(self._expire(), "look which RocketMQ clients are gone")
        self._runtime.spawn(self.around.producers.beat_for_ever(), "tell RocketMQ's brokers of producer groups")
        if every_ms := self.around.options.register_snode_ms:
            registering = Registering(self.around).for_ever(every_ms / 1_000)
            self._runtime.spawn(registering, "tell RocketMQ's name servers of this Snode")

    def session(self, peer: Peer, broker: str | None = None) -> RelayedSession:
        """A new session; ``broker``: the broker that the connection's port stands for."""
        session = RelayedSession(self.around, next(self._numbers), peer, self._sessions.discard, broker)
        self._sessions.add(session)
        return session

    @property
    def side_doors(self) -> Mapping[int, BrokerDoor]:
        """The ports that an operator chose for brokers (``penstock.interfaces.front.Front``)."""
        return {port: BrokerDoor(self, broker) for broker, port in self.around.options.broker_ports.items()}

    async def open_doors(self, main: int, open_at: OpenDoor) -> None:
        """Open VIP ports and, with several brokers, a port for each (``penstock.interfaces.front.Front``)."""
        await self.around.ports.open(open_at, main, self)
        await self.around.ports.keep_up(self.around.relay.brokers.names)

    async def stop(self) -> None:
        """Release what waits here. Requests under way end with the broker's response or with their connection."""
        self.around.peers.stopping = True
        for session in self._sessions:
            session.line.release()
        await self.around.peers.stop()

    def expire(self) -> None:
        """Remove silent clients and Snodes. The front calls it every ``housekeeping_ms``."""
        self.around.snodes.expire(self.around.now)
        for line in self.around.clients.expire(self.around.now):
            line.hang_up()

    def _heard(self, broker: str | None, frame: Frame) -> Buffers | None:
        """A request from a broker; only questions about transactions are served."""
        asked = command_of(frame)
        if broker is not None and asked.code == CHECK_TRANSACTION_STATE.code:
            pass_on_check(self.around, broker, asked)
        return None

    async def _expire(self) -> None:
        while True:
            await self._runtime.sleep(self.around.options.housekeeping_ms / 1_000)
            self.expire()
            if self.around.clients.consumers:
                await self.around.made_groups.keep_up()
            await self.around.ports.keep_up(self.around.relay.brokers.names)


class BrokerDoor:
    """A port of the node that stands for one broker (``penstock.interfaces.front.Opens``)."""

    def __init__(self, front: RelayedFront, broker: str) -> None:
        self._front = front
        self._broker = broker

    def session(self, peer: Peer) -> RelayedSession:
        return self._front.session(peer, self._broker)
