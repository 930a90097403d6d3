"""A sender whose batches belong to transactions.

What to do after a failed batch (``recover``), in order; inside a transaction nothing is ever numbered anew:

| what happened | what is done |
| --- | --- |
| retriable, or the connection broke | send the same bytes: the broker knows them by their number |
| OUT_OF_ORDER_SEQUENCE_NUMBER while earlier batches wait | send the same bytes, after them |
| anything else | give up: the transaction can only be aborted |

A batch that was given up leaves a gap in the numbers, or is stored without anybody knowing. Both are harmless once the
transaction is aborted and the epoch raised: by EndTxn itself in the second version of the protocol, else by
InitProducerId with the identity we have (KIP-360). Which errors end this sender for good is the set below.

A transaction is ended on the wire only if it is known to have begun there: to end what has not is an error before the
second version. What may have begun by a request whose answer was lost has left a gap, too.
Source: KIP-98, KIP-360, KIP-588, KIP-890.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from penstock.errors import PenstockError, ServerError
from penstock.model import Committed, GroupMetadata, Node, Partition, PreparedTransaction
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.sender import KafkaSender
from penstock.protocols.kafka.client.sequences import NOT_IDEMPOTENT, KafkaPacked
from penstock.protocols.kafka.client.transactions import Transactions
from penstock.seams.client import Heard, Packed, Sent

__all__ = ["KafkaTransactionalSender"]

T = TypeVar("T")

_OUT_OF_ORDER: Final = 45
_HIGHEST_PRODUCE: Final = {False: 11, True: 12}
"""By second version: from v12 on a broker takes a batch as its partition's request to take part."""

_FATAL: Final = frozenset((31, 35, 43, 47, 48, 49, 50, 53, 90))
"""Coordinator's answers after which this identity is of no use: fenced (47, 90), not allowed (31, 53), unknown (49),
out of step (48), or asked for what the cluster does not have (35, 43, 50)."""

_FATAL_FOR_BATCHES: Final = frozenset((53, 90))
"""The same for Produce, where 47 may come of the transaction's own timeout: its end tells (KIP-588)."""


class KafkaTransactionalSender(KafkaSender):
    """``penstock.seams.transactions.TransactionalSender``."""

    def __init__(self, cluster: Cluster, transactions: Transactions) -> None:
        super().__init__(cluster, idempotent=True)
        self._transactional_id = transactions.transactional_id
        self._transactions = transactions
        self._partitions: set[Partition] = set()
        self._groups: set[str] = set()
        self._touched = False
        self._gap = False
        self._second = False
        self.fatal: PenstockError | None = None

    async def open(self) -> None:
        """Take the transactional id over."""
        if self._identity == NOT_IDEMPOTENT:
            self._identity = await self._guard(self._transactions.init())

    def begin(self) -> None:
        """What is sent from now on is one transaction."""
        self._second = self._transactions.second_version
        self._highest_produce = _HIGHEST_PRODUCE[self._second]
        self._partitions.clear()
        self._groups.clear()
        self._touched = False

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """One request, once its partitions take part. A broken connection or a timeout is each ``Sent.error``."""
        new = {packed.partition for packed in batches} - self._partitions
        if new and not self._second:
            try:
                await self._guard(self._transactions.add_partitions(self._identity, new))
            except PenstockError as error:
                return [Sent(packed, -1, -1, error) for packed in batches]
        self._partitions |= new
        self._touched = True
        return await super().send(node, batches, acks=acks, timeout_s=timeout_s)

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """One request, if its partitions need not be announced first."""
        used = {packed.partition for packed in batches}
        if not (self._second or used <= self._partitions):
            return False
        if not super().send_at_once(node, batches, heard, acks=acks, timeout_s=timeout_s):
            return False
        self._partitions |= used
        self._touched = True
        return True

    async def recover(self, packed: Packed, error: PenstockError) -> KafkaPacked | None:
        """The batch to send next, or None to give up; see the table above."""
        assert isinstance(packed, KafkaPacked)
        numbering = self._numbering[packed.partition]
        if packed in numbering.waiting:
            if error.retriable:
                return packed
            code = error.code if isinstance(error, ServerError) else None
            if code == _OUT_OF_ORDER and packed.overtook:
                return packed
            if code in _FATAL_FOR_BATCHES:
                self.fatal = error
            await self.abandon(packed)
        return None

    async def abandon(self, packed: Packed) -> None:
        """It will not be sent again, though it may be stored."""
        assert isinstance(packed, KafkaPacked)
        numbering = self._numbering.get(packed.partition)
        if numbering is not None and packed in numbering.waiting:
            numbering.waiting.remove(packed)
            self._gap = True

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Commit offsets of a group with the transaction."""
        if not offsets:
            return
        if not self._second and group.group not in self._groups:
            await self._guard(self._transactions.add_group(self._identity, group.group))
            self._groups.add(group.group)
        self._touched = True
        await self._guard(self._transactions.commit_offsets(self._identity, offsets, group, second=self._second))

    def prepared(self) -> PreparedTransaction:
        """What somebody else needs to end this transaction."""
        if not self._touched:
            return PreparedTransaction(self._transactions.transactional_id)
        return PreparedTransaction(
            self._transactions.transactional_id, self._identity.producer_id, self._identity.epoch
        )

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; a transaction of which the cluster knows nothing needs no word."""
        before = self._identity
        if self._touched:
            self._identity = await self._guard(
                self._transactions.end(self._identity, commit=commit, second=self._second)
            )
            self._touched = False
            self._gap &= self._identity == before
        if self._gap:
            self._identity = await self._guard(self._transactions.init(self._identity))
            self._gap = False
        if self._identity != before:
            self._numbering.clear()

    async def _guard(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except ServerError as error:
            if error.code in _FATAL:
                self.fatal = error
            raise
