"""Where each group is in each partition: committed offsets, kept with those of all protocols.

An offset here is the number of the next record to read, as everywhere in the node; TubeMQ's is 28 times that. So
Kafka's tools see how far a TubeMQ group is, and a group that changes its protocol goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.interfaces.enode import Enode, extent
from penstock.interfaces.node import Offsets
from penstock.model import Committed, Partition

__all__ = ["Positions"]


class Positions:
    """What is set is durable when the call returns."""

    def __init__(self, offsets: Offsets, enode: Enode, now_ms: Callable[[], int]) -> None:
        self._offsets = offsets
        self._enode = enode
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

    async def begin(
        self,
        group: str,
        partition: Partition,
        wanted: int | None,
        *,
        from_end: bool,
        always: bool,
        host: str | None = None,
    ) -> int:
        """Where a reader that registers begins; it is the group's offset from then on. Raises StoreError.

        ``wanted`` is moved into the log; without it, the group's offset counts, or else the log's end (``from_end``) or
        start. ``always`` the end.
        """
        start, end, _, _ = await extent(self._enode, partition)
        known = await self.of(group, partition)
        if always:
            offset = end
        elif wanted is not None:
            offset = min(max(wanted, start), end)
        elif known is not None:
            offset = known
        else:
            offset = end if from_end else start
        await self.set(group, partition, offset, host)
        return offset
