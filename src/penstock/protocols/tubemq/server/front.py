"""The TubeMQ front of a node: master and broker in one. Makes sessions, starts and stops what they share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.concurrency.background import BackgroundWorker, LoopBudget
from penstock.concurrency.limits import Shares
from penstock.concurrency.locks import Locks
from penstock.errors import ConfigError, PenstockError
from penstock.interfaces.front import Front, Meter, Peer
from penstock.interfaces.node import Services
from penstock.model import Partition
from penstock.protocols.tubemq.config import TubeNodeConfig
from penstock.protocols.tubemq.server.bookings import Bookings, Positions
from penstock.protocols.tubemq.server.context import Cluster, Shared, TubeFrontOptions
from penstock.protocols.tubemq.server.groups import Groups, MemberTimeouts, Producers
from penstock.protocols.tubemq.server.log import Routes, Warming, Writing
from penstock.protocols.tubemq.server.session import CODES, TubeSession
from penstock.protocols.tubemq.server.settings import Settings, SettingsLog
from penstock.protocols.tubemq.server.web_api.routes import Admin
from penstock.protocols.tubemq.wire.rpc import METHODS

if TYPE_CHECKING:
    from penstock.config import SnodeConfig

__all__ = ["TubeFront", "meter_of", "open_front"]


# The meter of a TubeMQ front: what its numbers are called, and what there is of something now.
def meter_of(services: Services, groups: Groups, producers: Producers) -> Meter:
    """Made anew."""
    made = services.meters.front("tubemq", _api, CODES)
    made.levels.update(
        groups=lambda: sum(1 for _ in groups),
        members=lambda: groups.members,
        producers=lambda: len(producers.topics()),
    )
    return made


def _api(number: int) -> str | None:
    method = METHODS.get(number)
    return None if method is None else method.name.replace(" ", "_")


# The TubeMQ front of a node: master and broker in one. Makes sessions, starts and stops what they share.
_STEPS_OF_A_GROUP: Final = 50
"""Of `LoopBudget`: to share out some hundred partitions takes about half a millisecond."""

_log = logging.getLogger("penstock.node")


class TubeFront(Front):
    """``penstock.interfaces.front.Front``."""

    def __init__(self, services: Services, options: TubeFrontOptions | None = None) -> None:
        options = options or TubeFrontOptions()
        self._sessions: set[TubeSession] = set()
        runtime = services.runtime
        percent, memory = options.address_share_percent, services.memory
        patience = MemberTimeouts(options.consumer_timeout_ms / 1_000, options.event_timeout_ms / 1_000)
        settings = Settings()
        cluster = Cluster(services, settings)
        groups = Groups(
            patience,
            self._random_below,
            Shares("consumers registered", "tubemq_max_clients", options.max_clients, memory, percent),
        )
        producers = Producers(
            options.producer_timeout_ms / 1_000,
            Shares("producers registered", "tubemq_max_clients", options.max_clients, memory, percent),
        )
        self.shared = Shared(
            services,
            options,
            cluster,
            settings,
            SettingsLog(settings, services.journals, runtime),
            groups,
            producers,
            Bookings(
                options.partition_timeout_ms / 1_000,
                Shares("partitions booked", "tubemq_max_bookings", options.max_bookings, memory, percent),
            ),
            Positions(services.offsets, services.enode, runtime.now_ms),
            Writing(services.enode, runtime, options.pending_bytes),
            Routes(cluster, settings),
            Warming(runtime),
            BackgroundWorker(runtime, services.memory),
            LoopBudget(runtime),
            Locks(runtime.promise),
            Locks(runtime.promise),
            meter_of(services, groups, producers),
            visit_token=runtime.now_ms(),
        )
        self._admin = Admin(self.shared)

    @property
    def scheme(self) -> str:
        return "tubemq"

    async def start(self) -> None:
        """Read back what operators have set, and begin to balance. Raises StoreError, CorruptBatch."""
        await self.shared.settings_log.load()
        self.shared.services.runtime.spawn(self._balance(), "balance TubeMQ groups")

    def session(self, peer: Peer) -> TubeSession:
        session = TubeSession(self.shared, self._admin, peer, self._sessions.discard)
        self._sessions.add(session)
        return session

    async def stop(self) -> None:
        """Nothing is parked here: every request is answered as soon as the log has taken or given what it asks for."""

    async def balance(self) -> None:
        """Look who is gone and whether partitions should move; the front does so by itself now and then."""
        shared = self.shared
        shared.bookings.expire(shared.now)
        shared.producers.expire(shared.now)
        readable = {topic: await self._readable(topic) for topic in shared.groups.topics}
        # Who has joined meanwhile with other topics gets their partitions in the next round.
        for _ in shared.groups.round(shared.now, lambda group, topic: self._candidates(group, topic, readable)):
            await shared.turns.take(_STEPS_OF_A_GROUP)

    async def _balance(self) -> None:
        while True:
            await self.shared.services.runtime.sleep(self.shared.options.balance_period_ms / 1_000)
            try:
                await self.balance()
            except PenstockError as error:
                _log.warning("cannot balance TubeMQ groups, will try again: %s", error)

    def _candidates(self, group: str, topic: str, readable: Mapping[str, Sequence[Partition]]) -> Sequence[Partition]:
        """What a group may be given of a topic: nothing of one that an operator has forbidden it."""
        return () if topic in self.shared.settings.group(group).denied else readable.get(topic, ())

    async def _readable(self, topic: str) -> list[Partition]:
        accepts = self.shared.settings.accepts_subscribe(topic)
        return await self.shared.cluster.partitions(topic) if accepts else []

    def _random_below(self, bound: int) -> int:
        return int.from_bytes(self.shared.services.runtime.random_bytes(4), "big") % bound


# From a node's configuration to its TubeMQ front.
_SCHEME = "tubemq"


def open_front(services: Services, config: SnodeConfig) -> TubeFront:
    """The front of a node. Raises ConfigError for an address that TubeMQ's strings cannot carry."""
    listening = {listen.scheme: listen.endpoint for listen in config.listen}
    advertised = config.advertised.get(_SCHEME) or listening.get(_SCHEME)
    if advertised is not None and ":" in advertised.host:
        raise ConfigError(
            f"TubeMQ clients cannot be given the address {advertised}", hint="Listen on, or advertise, IPv4 or a name"
        )
    own = config.front(TubeNodeConfig)
    options = TubeFrontOptions(
        balance_period_ms=own.balance_period_ms,
        max_clients=own.tubemq_max_clients,
        max_bookings=own.tubemq_max_bookings,
        address_share_percent=config.address_share_percent,
        consumer_timeout_ms=own.tubemq_timeout_ms,
        producer_timeout_ms=own.tubemq_timeout_ms,
        partition_timeout_ms=own.tubemq_timeout_ms,
        event_timeout_ms=2 * own.tubemq_timeout_ms,
        admin_token=own.admin_token or "",
    )
    return TubeFront(services, options)
