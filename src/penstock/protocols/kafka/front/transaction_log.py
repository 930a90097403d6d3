"""Where transactional ids are kept: ``__transaction_state`` in the node's own log.

Everything is read back at start, last record wins; the store compacts the topic. What must not live here: decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.model import Partition
from penstock.protocols.kafka.offsets_log import OffsetsLog
from penstock.protocols.kafka.transactions import Transaction
from penstock.seams.enode import Enode, FetchPart, TopicState, extent, fetch_one
from penstock.seams.locks import Locks

__all__ = ["TransactionLog"]

_TOPIC: Final = "__transaction_state"
_READ_BYTES: Final = 1 << 20


class TransactionLog:
    """``partitions`` of the topic are chosen when it is made, with the first transactional id, and stay."""

    def __init__(self, enode: Enode, partitions: int, locks: Locks[tuple[str, ...]]) -> None:
        self._enode = enode
        self._locks = locks
        self._partitions = partitions
        self._hash = OffsetsLog()  # ids are spread as groups are

    async def load(self) -> dict[str, Transaction]:
        """All that are known. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is forgotten in silence."""
        found: dict[str, Transaction] = {}
        topic = await self._enode.topic(_TOPIC)
        if topic is None:
            return found
        from penstock.protocols.kafka.transactions.stored import replay

        for number in range(topic.partitions):
            partition = Partition(_TOPIC, number)
            start, end, _, _ = await extent(self._enode, partition)
            while start < end:
                part = await fetch_one(self._enode, FetchPart(partition, start, _READ_BYTES))
                for transactional_id, transaction in replay(part.read()):
                    if transaction is None:
                        found.pop(transactional_id, None)
                    else:
                        found[transactional_id] = transaction
                start = part.next_offset
        return found

    async def store(self, transaction: Transaction, now_ms: int) -> None:
        """Durable as any acknowledged record when it returns. Raises StoreError."""
        from penstock.protocols.kafka.transactions.stored import CONFIG, batch_for  # spares most nodes the codec

        topic = await self._ensured(CONFIG)
        number = self._hash.partition_of(transaction.transactional_id, topic.partitions)
        await self._enode.append(Partition(_TOPIC, number), batch_for(transaction, now_ms))

    async def _ensured(self, config: Mapping[str, str]) -> TopicState:
        async with self._locks.held(("topic", _TOPIC)):
            topic = await self._enode.topic(_TOPIC)
            return topic or await self._enode.create_topic(_TOPIC, self._partitions, config)
