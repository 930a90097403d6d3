"""The Kafka front of a node: makes sessions, starts and stops what they share."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from penstock.errors import PenstockError
from penstock.protocols.kafka.front.call import Shared
from penstock.protocols.kafka.front.consumer_group_keeper import ConsumerGroupKeeper
from penstock.protocols.kafka.front.fetch_sessions import FetchSessions
from penstock.protocols.kafka.front.group_keeper import GroupKeeper, tell
from penstock.protocols.kafka.front.limits import Limits, Room
from penstock.protocols.kafka.front.options import KafkaFrontOptions
from penstock.protocols.kafka.front.producer_ids import GivesProducerIds, ProducerIds
from penstock.protocols.kafka.front.session import KafkaSession
from penstock.protocols.kafka.front.table import offered
from penstock.protocols.kafka.front.telling import CODES
from penstock.protocols.kafka.front.transaction_keeper import TransactionKeeper
from penstock.protocols.kafka.messages.catalog import name_of as api_name
from penstock.seams.beside import Beside, Pace, Turns
from penstock.seams.front import Peer
from penstock.seams.memory import Portion
from penstock.seams.node import Services

__all__ = ["KafkaFront"]

_log = logging.getLogger("penstock.node")
_SCHEME: Final = "kafka"
_LARGE_SHARE: Final = 4
"""Requests of many entries may take such a part of the memory together."""


class KafkaFront:
    """``penstock.seams.front.Front``."""

    def __init__(self, services: Services, options: KafkaFrontOptions | None = None) -> None:
        self._sessions: set[KafkaSession] = set()
        options = options or KafkaFrontOptions()
        runtime = services.runtime
        behind: object = services.enode.relay(_SCHEME)
        asked = behind.producer_id if isinstance(behind, GivesProducerIds) else None
        ids = ProducerIds(services.identity.epoch, asked)
        limits = Limits(options, services.memory, Room(options, services.memory, services.enode, runtime.monotonic))
        newer = ConsumerGroupKeeper(options.newer_groups, services, tell, limits.members, limits.groups)
        groups = GroupKeeper(
            options.groups,
            newer,
            services.offsets,
            runtime,
            near=services.enode.near,
            held=limits.members,
            kept=limits.groups,
        )
        turns = Turns(runtime)
        self._shared = Shared(
            services,
            options,
            groups,
            FetchSessions(options.fetch_sessions, runtime.random_bytes, services.memory, options.address_share_percent),
            ids,
            TransactionKeeper(
                services,
                ids,
                partitions=options.transaction_partitions,
                max_timeout_ms=options.transaction_max_timeout_ms,
                kept=limits.ids,
            ),
            Beside(runtime, services.memory),
            turns,
            offered(services.enode.abilities),
            services.meters.front("kafka", api_name, CODES),
            Portion(services.memory, services.memory.limit // _LARGE_SHARE, runtime.promise),
            limits,
            partial(Pace, turns, services.memory, options.max_answer_entries),
        )
        self._shared.meter.levels.update(
            held=lambda: sum(each.line.held for each in self._sessions),
            groups=lambda: sum(1 for _ in self._shared.groups.coordinator.groups()),
            members=self._members,
        )

    @property
    def scheme(self) -> str:
        return _SCHEME

    async def start(self) -> None:
        """Take over groups and transactions from the log. Raises ProtocolViolation where their records are damaged."""
        await self._shared.transactions.start()
        await self._shared.groups.start()
        await self._shared.limits.room.look()
        self._shared.services.runtime.spawn(self._expire(), "expire committed offsets and transactional ids")

    def session(self, peer: Peer) -> KafkaSession:
        session = KafkaSession(self._shared, peer, self._sessions.discard)
        self._sessions.add(session)
        return session

    async def stop(self) -> None:
        """Answer what is parked: fetches with what there is, joins and syncs with an error they try again on."""
        self._shared.groups.stop()
        self._shared.transactions.stop()
        for session in self._sessions:
            session.line.release()

    def _members(self) -> int:
        return sum(len(group.members) for group in self._shared.groups.coordinator.groups())

    async def _expire(self) -> None:
        options = self._shared.options
        while True:
            await self._shared.services.runtime.sleep(options.offsets_check_interval_ms / 1_000)
            try:
                await self._shared.groups.expire_offsets(options.offsets_retention_ms)
                await self._shared.transactions.forget_unused(options.transactional_id_expiration_ms)
                await self._shared.limits.room.look()
            except PenstockError as error:
                _log.warning("cannot forget what is too old, will try again: %s", error)
