"""Places in a commit log, by which RocketMQ's clients name single messages, where there is no commit log.

A place is a number of 63 bits: which partition, and the offset there. Partitions get numbers of their own, a block a
topic, when their first message is told to somebody; the front remembers them, since ids of messages outlive it. A topic
that is made anew gets others, so that an old id never names another message.
"""

from __future__ import annotations

from typing import Final

from penstock.model import Partition
from penstock.protocols.rocketmq.front.ledger import Ledger
from penstock.seams.enode import Enode, TopicState

__all__ = ["Places"]

_OFFSET_BITS: Final = 39
_LARGEST_OFFSET: Final = (1 << _OFFSET_BITS) - 1
_KIND: Final = "places"
_KEPT: Final = 100_000


class Places:
    """Offsets beyond 2^39 of a partition are told apart by their lowest 39 bits only."""

    def __init__(self, ledger: Ledger, enode: Enode) -> None:
        self._ledger = ledger
        self._enode = enode
        self._bases: dict[tuple[bytes, int], int] = {}

    async def base(self, topic: TopicState, number: int) -> int:
        """The place of a partition's first offset. Raises StoreError."""
        known = self._bases.get((topic.id, number))
        return known if known is not None else await self._base(topic, number)

    async def find(self, place: int) -> tuple[Partition, int] | None:
        """The partition and the offset that a place names; None where there is none, or not any more."""
        number, offset = place >> _OFFSET_BITS, place & _LARGEST_OFFSET
        for name, blocks in self._ledger.all(_KIND):
            before = 0
            for first, count in blocks:
                if first <= number < first + count:
                    topic = await self._enode.topic_by_id(bytes.fromhex(name))
                    return None if topic is None else (Partition(topic.name, before + number - first), offset)
                before += count
        return None

    async def _base(self, topic: TopicState, number: int) -> int:
        name = topic.id.hex()
        blocks = self._ledger.get(_KIND, name) or []
        if _count(blocks) <= number:
            blocks = await self._ledger.compose(
                _KIND, name, lambda: self._grown(name, max(topic.partitions, number + 1))
            )
        if len(self._bases) >= _KEPT:
            self._bases.clear()
        found = self._bases[topic.id, number] = _number(blocks, number) << _OFFSET_BITS
        return found

    def _grown(self, name: str, total: int) -> list[list[int]]:
        """A topic's blocks, with one more where it has grown."""
        free = 1
        for _, blocks in self._ledger.all(_KIND):
            free = max(free, *(first + count for first, count in blocks))
        mine = list(self._ledger.get(_KIND, name) or [])
        more = total - _count(mine)
        return [*mine, [free, more]] if more > 0 else mine


def _count(blocks: list[list[int]]) -> int:
    return sum(count for _, count in blocks)


def _number(blocks: list[list[int]], partition: int) -> int:
    """The number of a topic's partition, which is in one of its blocks."""
    for first, count in blocks:
        if partition < count:
            return first + partition
        partition -= count
    raise IndexError(f"no number for a partition {partition} places behind the last one")
