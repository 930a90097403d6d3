"""Where transactional ids are kept: the journal ``__transaction_state``, in Kafka's own format.

Everything is read back at start, last record wins; who keeps the journal compacts it. What must not live here:
decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocols.kafka.offsets_log import OffsetsLog
from penstock.protocols.kafka.transactions import Transaction
from penstock.seams.journal import Ended, Journals, Noted

__all__ = ["TransactionLog"]

_TOPIC: Final = "__transaction_state"
_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": str(16 << 20),
}
"""Smaller segments than Kafka's 100 MiB: only closed ones are compacted, and all are read at start."""


class TransactionLog:
    """``partitions`` of the journal are chosen when it is made, with the first transactional id, and stay."""

    def __init__(self, journals: Journals, partitions: int) -> None:
        self._journal = journals.journal(_TOPIC, places=partitions, config=_CONFIG)
        self._hash = OffsetsLog()  # ids are spread as groups are

    async def load(self) -> dict[str, Transaction]:
        """All that are known. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is forgotten in silence."""
        found: dict[str, Transaction] = {}

        def follow(place: int, each: Noted | Ended) -> None:
            from penstock.protocols.kafka.transactions.stored import read_entry  # spares most nodes the codec

            said = None if isinstance(each, Ended) or each.key is None else read_entry(each.key, each.value)
            if said is not None and said[1] is None:
                found.pop(said[0], None)
            elif said is not None and said[1] is not None:
                found[said[0]] = said[1]

        await self._journal.replay(follow)
        return dict(found)

    async def store(self, transaction: Transaction) -> None:
        """Durable as any acknowledged record when it returns. Raises StoreError."""
        from penstock.protocols.kafka.transactions.stored import entry_of

        entry = entry_of(transaction)
        place = self._hash.partition_of(transaction.transactional_id, await self._journal.places())
        await self._journal.append(place, lambda: [entry])
