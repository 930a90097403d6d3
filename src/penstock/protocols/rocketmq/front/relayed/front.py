"""The front over real brokers: makes sessions, starts and stops what they share, hears what brokers ask."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.front.call import IDLE_S
from penstock.protocols.rocketmq.front.doors import BrokerPorts
from penstock.protocols.rocketmq.front.metering import meter_of
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.front.relayed.apis.transactions import pass_on_check
from penstock.protocols.rocketmq.front.relayed.around import Around, Traffic
from penstock.protocols.rocketmq.front.relayed.made_groups import MadeGroups
from penstock.protocols.rocketmq.front.relayed.peers.opening import peers_of
from penstock.protocols.rocketmq.front.relayed.producers import ProducerGroups
from penstock.protocols.rocketmq.front.relayed.registering import Registering
from penstock.protocols.rocketmq.front.relayed.retry_topics import RetryTopics
from penstock.protocols.rocketmq.front.relayed.session import RelayedSession
from penstock.protocols.rocketmq.methods import CHECK_TRANSACTION_STATE
from penstock.seams.beside import Beside
from penstock.seams.framing import Buffers, Frame
from penstock.seams.front import OpenDoor, Peer
from penstock.seams.node import Services
from penstock.seams.shares import Shares

__all__ = ["BrokerDoor", "RelayedFront"]


class RelayedFront:
    """``penstock.seams.front.Front``."""

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
        beside = Beside(runtime, services.memory)
        made = MadeGroups(relay, runtime, beside, everything=options.auto_create_groups)
        who = f"penstock-{services.identity.node_id}@{runtime.random_bytes(4).hex()}"
        clients.may_notify = lambda group: group not in made.silent
        traffic = Traffic(options.max_under_way)
        self.around = Around(
            services,
            options,
            clients,
            relay,
            ProducerGroups(relay, clients, runtime, who, options.producer_beat_ms / 1_000),
            RetryTopics(relay, runtime, made),
            peers_of(services, options, relay, clients),
            traffic,
            made,
            beside,
            Shares(
                "held requests", "rocketmq_max_held", options.max_held, services.memory, options.address_share_percent
            ),
            meter_of(services, clients, lambda: traffic.held),
            BrokerPorts(options.broker_ports, lambda broker: BrokerDoor(self, broker)),
        )
        relay.hear(self._heard)

    @property
    def idle_timeout_s(self) -> float:
        """``penstock.seams.front.HangsUpIdle``."""
        return IDLE_S

    @property
    def siblings(self) -> int:
        """How many other Snodes are heard."""
        return len(self.around.peers.union.others)

    @property
    def scheme(self) -> str:
        return "rocketmq"

    async def start(self) -> None:
        """What other Snodes know of groups is heard; clients say who they are within half a minute."""
        await self.around.made_groups.keep_up()
        await self.around.peers.start()
        self._runtime.spawn(self._expire(), "look which RocketMQ clients are gone")
        self._runtime.spawn(self.around.producers.beat_for_ever(), "tell RocketMQ's brokers of producer groups")
        if every_ms := self.around.options.register_snode_ms:
            registering = Registering(self.around).for_ever(every_ms / 1_000)
            self._runtime.spawn(registering, "tell RocketMQ's name servers of this Snode")

    def session(self, peer: Peer, broker: str | None = None) -> RelayedSession:
        """``broker``: whose port it is."""
        session = RelayedSession(self.around, next(self._numbers), peer, self._sessions.discard, broker)
        self._sessions.add(session)
        return session

    @property
    def side_doors(self) -> Mapping[int, BrokerDoor]:
        """``penstock.seams.front.HasSideDoors``: a port for each broker that shall have one."""
        return {port: BrokerDoor(self, broker) for broker, port in self.around.options.broker_ports.items()}

    async def open_doors(self, main: int, open_at: OpenDoor) -> None:
        """``penstock.seams.front.OpensDoors``: VIP ports, and before several brokers a port for each."""
        await self.around.ports.open(open_at, main, self)
        await self.around.ports.keep_up(self.around.relay.brokers.names)

    async def stop(self) -> None:
        """Nothing waits here: what is under way to brokers is answered by them, or cut off with its connection."""
        self.around.peers.stopping = True
        for session in self._sessions:
            session.line.release()
        await self.around.peers.stop()

    def expire(self) -> None:
        """Take out who has not been heard of for too long; the front does so by itself now and then."""
        self.around.snodes.expire(self.around.now)
        for line in self.around.clients.expire(self.around.now):
            line.hang_up()

    def _heard(self, broker: str | None, frame: Frame) -> Buffers | None:
        """Of what brokers say, only questions about transactions concern anybody here."""
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
    """``penstock.seams.front.Opens``: a port of the node that stands for one broker."""

    def __init__(self, front: RelayedFront, broker: str) -> None:
        self._front = front
        self._broker = broker

    def session(self, peer: Peer) -> RelayedSession:
        return self._front.session(peer, self._broker)
