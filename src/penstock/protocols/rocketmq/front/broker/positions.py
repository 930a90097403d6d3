"""Where each group is in each queue: committed offsets, kept with those of all protocols.

So Kafka's tools see how far a RocketMQ group is, and a group that changes its protocol goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.model import Committed, Partition
from penstock.seams.node import Offsets

__all__ = ["Positions"]


class Positions:
    """What is set is durable when the call returns."""

    def __init__(self, offsets: Offsets, now_ms: Callable[[], int]) -> None:
        self._offsets = offsets
        self._now_ms = now_ms

    async def of(self, group: str, partition: Partition) -> int | None:
        """The group's committed offset; None if it has none."""
        found = (await self._offsets.committed(group)).get(partition)
        return None if found is None else found.offset

    async def set(self, group: str, partition: Partition, offset: int, host: str | None = None) -> None:
        """Commit, also backwards: who asks for that means it; a client at ``host``. Raises StoreError, NoRoom."""
        if await self.of(group, partition) != offset:
            committed = Committed(offset, timestamp_ms=self._now_ms())
            await self._offsets.commit(group, {partition: committed}, host=host)

    async def forget(self, group: str, partition: Partition) -> None:
        """Take it away. Raises StoreError."""
        await self._offsets.forget(group, lambda each, _: each == partition)
