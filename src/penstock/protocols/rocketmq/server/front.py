"""The RocketMQ front of a node over its own log, and `open_front`, which opens it or `server.relayed`'s front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.concurrency.background import BackgroundWorker, LoopBudget
from penstock.concurrency.limits import Shares
from penstock.errors import ConfigError
from penstock.interfaces.front import Front, OpenDoor, Peer
from penstock.interfaces.node import Services
from penstock.protocols.rocketmq.backend.relay import RocketRelay
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.server.call import IDLE_S, Shared
from penstock.protocols.rocketmq.server.clients import Clients, Counts, QueueLocks, meter_of
from penstock.protocols.rocketmq.server.cluster import Cluster, RocketFrontOptions, open_vip_port
from penstock.protocols.rocketmq.server.dispatch import RocketSession
from penstock.protocols.rocketmq.server.ledger import Ledger, Places, Positions, Settings
from penstock.protocols.rocketmq.server.parked_messages import HALF, Delays, Transactions, header_of
from penstock.protocols.rocketmq.server.read_requests import Reader
from penstock.protocols.rocketmq.server.relayed.front import RelayedFront
from penstock.protocols.rocketmq.server.send_requests import Writing
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import MessageEncoder
from penstock.protocols.rocketmq.wire.rpc import CHECK_TRANSACTION_STATE, request
from penstock.records.scalar_codec import Stored

if TYPE_CHECKING:
    from penstock.config import SnodeConfig

__all__ = ["RocketFront", "open_front"]


class RocketFront(Front):
    """``penstock.interfaces.front.Front``."""

    def __init__(self, services: Services, options: RocketFrontOptions | None = None) -> None:
        options = options or RocketFrontOptions()
        self._sessions: set[RocketSession] = set()
        self._runtime = runtime = services.runtime
        enode, node_id = services.enode, services.identity.node_id
        ledger = Ledger(services.journals)
        settings = Settings(ledger)
        cluster = Cluster(services, options, settings)
        writing = Writing(enode, runtime, cluster)
        background = BackgroundWorker(runtime, services.memory)
        percent = options.address_share_percent
        clients = Clients(
            Shares("places in groups", "rocketmq_max_clients", options.max_clients, services.memory, percent),
            options.client_timeout_ms / 1_000,
            notify=options.notify_members,
        )
        clients.may_notify = settings.notifies
        self.shared = Shared(
            services,
            options,
            clients,
            cluster,
            settings,
            Places(ledger, enode),
            QueueLocks(
                options.lock_timeout_ms / 1_000,
                Shares("locks of queues", "rocketmq_max_locks", options.max_locks, services.memory, percent),
            ),
            Positions(services.offsets, runtime.now_ms),
            Reader(enode, background),
            writing,
            Delays(enode, runtime, ledger, node_id, writing.deliver, options.delay_scale),
            Transactions(
                enode,
                runtime,
                ledger,
                node_id,
                writing.deliver,
                self._ask,
                timeout_s=options.transaction_timeout_ms / 1_000,
                checks=options.transaction_checks,
            ),
            ledger,
            background,
            LoopBudget(runtime),
            Shares("held pulls", "rocketmq_max_held", options.max_held, services.memory, percent),
            meter_of(services, clients, lambda: sum(each.line.held for each in self._sessions)),
            Counts(),
        )

    @property
    def scheme(self) -> str:
        return "rocketmq"

    @property
    def idle_timeout_s(self) -> float:
        """``penstock.interfaces.front.Front``."""
        return IDLE_S

    async def start(self) -> None:
        """Load the persistent state and start the background tasks. Raises StoreError, CorruptBatch."""
        await self.shared.ledger.load()
        await self.shared.delays.start()
        self._runtime.spawn(self._expire(), "look which RocketMQ clients are gone")
        every_s = self.shared.options.check_every_ms / 1_000
        self._runtime.spawn(self.shared.transactions.check_for_ever(every_s), "ask what became of transactions")

    def session(self, peer: Peer) -> RocketSession:
        session = RocketSession(self.shared, peer, self._sessions.discard)
        self._sessions.add(session)
        return session

    async def open_doors(self, main: int, open_at: OpenDoor) -> None:
        """Open the VIP port (``penstock.interfaces.front.Front``)."""
        await open_vip_port(open_at, main, self)

    async def stop(self) -> None:
        """Answer all held pulls with what there is."""
        for session in self._sessions:
            session.line.release()

    def expire(self) -> None:
        """Remove silent clients, Snodes and locks. The front calls it every ``housekeeping_ms``."""
        self.shared.snodes.expire(self.shared.now)
        for line in self.shared.clients.expire(self.shared.now):
            line.hang_up()
        self.shared.queue_locks.expire(self.shared.now)

    async def _ask(self, group: str, record: Stored, topic: str, queue: int) -> None:
        """Ask a producer of the group about a transaction, if one is connected."""
        shared = self.shared
        place = await shared.places.base(await shared.transactions.topic.made(), 0)
        dress = MessageEncoder(topic, queue, place, shared.cluster.host, shared.cluster.name)
        unique = header_of(record, "UNIQ_KEY")
        header = m.CheckTransaction(
            tran_state_table_offset=record.offset,
            commit_log_offset=place | record.offset,
            msg_id=unique,
            transaction_id=unique,
            offset_msg_id=shared.cluster.message_id(place | record.offset),
            topic=HALF,
            broker_name=shared.cluster.broker,
        )
        shared.clients.ask_producer(group, request(CHECK_TRANSACTION_STATE, header, dress.stored(record), one_way=True))

    async def _expire(self) -> None:
        while True:
            await self._runtime.sleep(self.shared.options.housekeeping_ms / 1_000)
            self.expire()


def open_front(services: Services, config: SnodeConfig) -> RocketFront | RelayedFront:
    """The front of a node: over its own log, or over brokers if the backend is a RocketMQ cluster.

    Raises ConfigError.
    """
    own = config.front(RocketNodeConfig)
    options = RocketFrontOptions(
        cluster=own.rocketmq_cluster,
        max_clients=own.rocketmq_max_clients,
        max_locks=own.rocketmq_max_locks,
        max_held=own.rocketmq_max_held,
        address_share_percent=config.address_share_percent,
        snode_name=own.snode_name,
        register_snode_ms=own.register_snode_ms,
        auto_create_topics=config.auto_create_topics,
        housekeeping_ms=own.rocketmq_housekeeping_ms,
        notify_members=own.rocketmq_notify_members,
        auto_create_groups=own.rocketmq_auto_create_groups,
        producer_beat_ms=own.producer_beat_ms,
        accounts=own.accounts,
        flow_requests=own.flow_requests,
        flow_kilobytes=own.flow_kilobytes,
        client_timeout_ms=own.rocketmq_timeout_ms,
        check_every_ms=own.transaction_check_ms,
        delay_scale=own.delay_scale_percent / 100,
        peers=own.other_snodes(),
        finds_peers=own.find_snodes,
        broker_ports=own.broker_ports,
    )
    relay = services.enode.relay("rocketmq")
    if isinstance(relay, RocketRelay):
        return RelayedFront(services, options, relay)
    if options.broker_ports:
        raise ConfigError(
            "rocketmq_broker_ports is for nodes before a RocketMQ cluster: here is one broker, the node",
            hint="Leave it out",
        )
    return RocketFront(services, options)
