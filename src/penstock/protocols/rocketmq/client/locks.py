"""Locks: queues of a group that reads in order, each locked at its broker for one member.

A broker forgets a lock that was not renewed for 60 seconds, and Java's members trust theirs for 30: they are renewed
every 20. A member that went without a word keeps the others waiting for as long as the broker remembers it.
Source: Apache RocketMQ 4.9 and 5.4, ``RebalanceImpl.lock``, ``RebalanceLockManager``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from penstock.config.logs import ClientLog, whose
from penstock.model import Node, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.queues import partition_of, queue_of
from penstock.protocols.rocketmq.methods import LOCK_BATCH_MQ, UNLOCK_BATCH_MQ

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["Locks"]

_MOMENT_S: Final = 1.0


class Locks:
    """One member's."""

    def __init__(self, shared: Shared, group: str) -> None:
        self._shared = shared
        self._group = group
        self._log = ClientLog("penstock.group", whose(shared.options.client_id))

    async def take(self, wanted: Collection[Partition]) -> frozenset[Partition]:
        """Lock, or go on locking; those that are this member's now."""
        by_node = self._by_node(wanted)
        outcomes = await self._shared.channel.gather([self._take(node, those) for node, those in by_node.items()])
        held: set[Partition] = set()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                self._log.warning("queues could not be locked: %s", outcome)
            else:
                held |= outcome
        return frozenset(held)

    async def release(self, partitions: Collection[Partition]) -> None:
        """Others may have them; where that cannot be said, the broker forgets them by itself."""
        by_node = self._by_node(partitions)
        work = [
            self._shared.calls.call(
                node.endpoint, UNLOCK_BATCH_MQ, m.Routed(broker_name=node.name), self._body(those), within_s=_MOMENT_S
            )
            for node, those in by_node.items()
        ]
        for outcome in await self._shared.channel.gather(work):
            if isinstance(outcome, BaseException):
                self._log.info("queues stay locked until their broker forgets them: %s", outcome)

    async def _take(self, node: Node, those: Collection[Partition]) -> set[Partition]:
        answer = await self._shared.calls.call(
            node.endpoint, LOCK_BATCH_MQ, m.Routed(broker_name=node.name), self._body(those), within_s=_MOMENT_S
        )
        found = m.read_body(m.LockedQueues, answer.body).lock_ok_mq_set
        return set(map(partition_of, found)) & set(those)

    def _body(self, those: Collection[Partition]) -> m.LockQueues:
        return m.LockQueues(consumer_group=self._group, client_id=self._shared.id, mq_set=tuple(map(queue_of, those)))

    def _by_node(self, partitions: Collection[Partition]) -> dict[Node, list[Partition]]:
        found: dict[Node, list[Partition]] = {}
        for partition in sorted(partitions):
            node = self._shared.topics.routing.leader(partition)
            if node is not None:
                found.setdefault(node, []).append(partition)
        return found
