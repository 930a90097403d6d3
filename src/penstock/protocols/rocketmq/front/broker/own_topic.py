"""A topic that the front keeps messages in until somebody may read them: written at its end, read by offset.

It is the node's own: its name says whose, so that several nodes over one cluster do not read each other's. Nothing in
it is deleted by age.
"""

from __future__ import annotations

from typing import Final

from penstock.columnar.checked import Checked
from penstock.columnar.plain_records import Stored, encode_batch, stored_records
from penstock.errors import CorruptBatch, LogOffsetOutOfRange, PenstockError, TopicExists
from penstock.model import Partition
from penstock.seams.enode import Enode, FetchPart, TopicState, fetch_one
from penstock.seams.journal import OWN_TOPICS
from penstock.seams.opening import locate_damage

__all__ = ["OwnTopic", "record_at"]

_CONFIG: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_READ_BYTES: Final = 256 << 10


class OwnTopic:
    """Made with its first record."""

    def __init__(self, enode: Enode, node_id: int, name: str, partitions: int) -> None:
        self._enode = enode
        self._partitions = partitions
        self.name = f"{OWN_TOPICS}{node_id}_rocketmq_{name}"

    async def found(self) -> TopicState | None:
        """The topic, if it is there by now."""
        return await self._enode.topic(self.name)

    async def made(self) -> TopicState:
        """The topic."""
        topic = await self._enode.topic(self.name)
        while topic is None:
            try:
                return await self._enode.create_topic(self.name, self._partitions, _CONFIG)
            except TopicExists:  # somebody was quicker
                topic = await self._enode.topic(self.name)
        return topic

    async def append(self, number: int, record: Stored) -> int:
        """Write one; its offset. Raises StoreError."""
        await self.made()
        (result,) = await self._enode.append_all(((Partition(self.name, number), Checked(encode_batch([record]))),))
        if isinstance(result, PenstockError):
            raise result
        return result.base_offset

    async def read(self, number: int, offset: int) -> list[Stored]:
        """What there is from ``offset`` on, a piece of it; nothing at the end. Raises StoreError, CorruptBatch."""
        part = FetchPart(Partition(self.name, number), offset, _READ_BYTES)
        try:
            found = await fetch_one(self._enode, part)
        except LogOffsetOutOfRange as error:
            if offset >= error.start_offset:
                return []
            found = await fetch_one(self._enode, part._replace(offset=error.start_offset))
        try:
            return list(stored_records(found.read(), offset))
        except CorruptBatch as error:
            await locate_damage(self._enode, part.partition, error)
            raise

    async def forget_before(self, number: int, offset: int) -> None:
        """What lies before is not needed any more."""
        if self._enode.abilities_of(self.name).deletion:
            await self._enode.delete_records(Partition(self.name, number), offset)


async def record_at(enode: Enode, partition: Partition, offset: int) -> Stored | None:
    """One record; None where there is none, or not any more. Raises StoreError, CorruptBatch."""
    try:
        found = await fetch_one(enode, FetchPart(partition, offset, 1, stable=True))
    except LogOffsetOutOfRange:
        return None
    try:
        first = next(stored_records(found.read(), offset, found.aborted), None)
    except CorruptBatch as error:
        await locate_damage(enode, partition, error)
        raise
    return first if first is not None and first.offset == offset else None
