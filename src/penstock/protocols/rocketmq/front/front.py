"""The RocketMQ front of a node: name server and broker in one. Makes sessions, starts and stops what they share."""

from __future__ import annotations

from penstock.columnar.plain_records import Stored
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.front.broker.counts import Counts
from penstock.protocols.rocketmq.front.broker.delays import Delays, header_of
from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.front.broker.messages import Dress
from penstock.protocols.rocketmq.front.broker.places import Places
from penstock.protocols.rocketmq.front.broker.positions import Positions
from penstock.protocols.rocketmq.front.broker.queue_locks import QueueLocks
from penstock.protocols.rocketmq.front.broker.reading import Reader
from penstock.protocols.rocketmq.front.broker.settings import Settings
from penstock.protocols.rocketmq.front.broker.transactions import HALF, Transactions
from penstock.protocols.rocketmq.front.broker.writing import Writing
from penstock.protocols.rocketmq.front.call import IDLE_S, Shared
from penstock.protocols.rocketmq.front.cluster import Cluster
from penstock.protocols.rocketmq.front.doors import open_vip_port
from penstock.protocols.rocketmq.front.ledger import Ledger
from penstock.protocols.rocketmq.front.metering import meter_of
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.front.session import RocketSession
from penstock.protocols.rocketmq.methods import CHECK_TRANSACTION_STATE
from penstock.protocols.rocketmq.records.ids import offset_id
from penstock.protocols.rocketmq.rpc import request
from penstock.seams.beside import Beside, Turns
from penstock.seams.front import OpenDoor, Peer
from penstock.seams.node import Services
from penstock.seams.shares import Shares

__all__ = ["RocketFront"]


class RocketFront:
    """``penstock.seams.front.Front``."""

    def __init__(self, services: Services, options: RocketFrontOptions | None = None) -> None:
        options = options or RocketFrontOptions()
        self._sessions: set[RocketSession] = set()
        self._runtime = runtime = services.runtime
        enode, node_id = services.enode, services.identity.node_id
        ledger = Ledger(services.journals)
        settings = Settings(ledger)
        cluster = Cluster(services, options, settings)
        writing = Writing(enode, runtime, cluster)
        beside = Beside(runtime, services.memory)
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
            Reader(enode, beside),
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
            beside,
            Turns(runtime),
            Shares("held pulls", "rocketmq_max_held", options.max_held, services.memory, percent),
            meter_of(services, clients, lambda: sum(each.line.held for each in self._sessions)),
            Counts(),
        )

    @property
    def scheme(self) -> str:
        return "rocketmq"

    @property
    def idle_timeout_s(self) -> float:
        """``penstock.seams.front.HangsUpIdle``."""
        return IDLE_S

    async def start(self) -> None:
        """Read back what is remembered. Raises StoreError, CorruptBatch."""
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
        """``penstock.seams.front.OpensDoors``: the VIP port."""
        await open_vip_port(open_at, main, self)

    async def stop(self) -> None:
        """Answer what is held, with what there is."""
        for session in self._sessions:
            session.line.release()

    def expire(self) -> None:
        """Take out who has not been heard of for too long; the front does so by itself now and then."""
        self.shared.snodes.expire(self.shared.now)
        for line in self.shared.clients.expire(self.shared.now):
            line.hang_up()
        self.shared.queue_locks.expire(self.shared.now)

    async def _ask(self, group: str, record: Stored, topic: str, queue: int) -> None:
        """Ask a producer of the group, if there is one now."""
        shared = self.shared
        place = await shared.places.base(await shared.transactions.topic.made(), 0)
        dress = Dress(topic, queue, place, shared.cluster.host, shared.cluster.name)
        unique = header_of(record, "UNIQ_KEY")
        header = m.CheckTransaction(
            tran_state_table_offset=record.offset,
            commit_log_offset=place | record.offset,
            msg_id=unique,
            transaction_id=unique,
            offset_msg_id=offset_id(shared.cluster.host, place | record.offset),
            topic=HALF,
            broker_name=shared.cluster.broker,
        )
        shared.clients.ask_producer(group, request(CHECK_TRANSACTION_STATE, header, dress.stored(record), one_way=True))

    async def _expire(self) -> None:
        while True:
            await self._runtime.sleep(self.shared.options.housekeeping_ms / 1_000)
            self.expire()
