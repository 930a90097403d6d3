"""Locks of queues: an orderly group's members take turns at each queue, and a lock that is not renewed ends.

A lock is its client's, not its connection's, and stays when the client is gone. Source: Apache RocketMQ 4.9 and 5.x,
``RebalanceLockManager``.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.messages import MessageQueue

__all__ = ["QueueLocks"]


@dataclass(slots=True)
class _Lock:
    client: str
    until: float


class QueueLocks:
    """Times are seconds of a clock that never goes back."""

    def __init__(self, lasts_s: float) -> None:
        self._lasts_s = lasts_s
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client: str, queues: Collection[MessageQueue], now: float) -> list[MessageQueue]:
        """Take, or renew, what is free or the client's already; those that are its own now."""
        held = self._locks.setdefault(group, {})
        granted = []
        for queue in queues:
            lock = held.get(queue)
            if lock is None or lock.client == client or lock.until <= now:
                held[queue] = _Lock(client, now + self._lasts_s)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client: str, queues: Collection[MessageQueue]) -> None:
        """Give back what is the client's."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client == client:
                del held[queue]

    def expire(self, now: float) -> None:
        """Forget what has ended."""
        for group in list(self._locks):
            left = {queue: lock for queue, lock in self._locks[group].items() if lock.until > now}
            if left:
                self._locks[group] = left
            else:
                del self._locks[group]
