"""Locks of queues: an orderly group's members take turns at each queue, and a lock that is not renewed ends.

A lock is its client's, not its connection's, and stays when the client is gone. Source: Apache RocketMQ 4.9 and 5.x,
``RebalanceLockManager``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.messages import MessageQueue
from penstock.seams.shares import Owner, Shares

__all__ = ["QueueLocks"]

_LOCK_BYTES: Final = 500
"""A lock, its queue and their places in two tables."""


@dataclass(slots=True)
class _Lock:
    client: str
    until: float


class QueueLocks:
    """Times are seconds of a clock that never goes back. ``shares``: the locks, by group and queue."""

    def __init__(self, lasts_s: float, shares: Shares[tuple[str, MessageQueue]]) -> None:
        self._lasts_s = lasts_s
        self._shares = shares
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(
        self, group: str, client: str, queues: Iterable[MessageQueue], now: float, owner: Owner
    ) -> list[MessageQueue]:
        """Take, or renew, what is free or the client's already; those that are its own now.

        ``owner``: the connection that asks. Raises Refused where there are too many locks; those before are taken.
        """
        granted = []
        for queue in queues:
            held = self._locks.get(group, {})
            lock = held.get(queue)
            if lock is None or lock.client == client or lock.until <= now:
                size = _LOCK_BYTES + len(group) + len(client) + len(queue.topic) + len(queue.broker_name)
                if (full := self._shares.put((group, queue), owner, size)) is not None:
                    raise Refused(Code.SYSTEM_BUSY, full)
                self._locks[group] = held
                held[queue] = _Lock(client, now + self._lasts_s)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client: str, queues: Iterable[MessageQueue]) -> None:
        """Give back what is the client's."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client == client:
                del held[queue]
                self._shares.drop((group, queue))

    def expire(self, now: float) -> None:
        """Forget what has ended."""
        for group in list(self._locks):
            held = self._locks[group]
            for queue in [queue for queue, lock in held.items() if lock.until <= now]:
                del held[queue]
                self._shares.drop((group, queue))
            if not held:
                del self._locks[group]
