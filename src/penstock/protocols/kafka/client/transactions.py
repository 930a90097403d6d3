"""A transactional producer: `Transactions` has its requests to coordinators, `KafkaTransactionalSender` its batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import structs

from penstock.errors import PenstockError, ProtocolViolation, ServerError
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import Heard, Packed, Sent, TransactionalSender
from penstock.model import Committed, GroupMetadata, Node, Partition, PreparedTransaction
from penstock.protocols.kafka.client.cluster import Cluster, by_topic
from penstock.protocols.kafka.client.coordinator import Coordinator, Kind, with_epochs
from penstock.protocols.kafka.client.sender import NOT_IDEMPOTENT, KafkaPacked, KafkaSender, ProducerIdentity
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.produce import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopicV3,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

__all__ = ["KafkaTransactionalSender", "Transactions"]

# The requests of one transactional id: get an identity, add partitions and offsets, end.
#
# Two versions of the protocol (the cluster's feature ``transaction.version``):
#
# | | 0 and 1 | 2 (KIP-890) |
# | --- | --- | --- |
# | a partition is added by | AddPartitionsToTxn before its first batch | its first batch (Produce v12) |
# | a group's offsets are added by | AddOffsetsToTxn before them | TxnOffsetCommit v5 |
# | after the end | the same epoch continues | EndTxn v5 returns the next epoch |
#
# Retriable errors (a coordinator that moved, CONCURRENT_TRANSACTIONS while the markers of the last transaction are
# being written) are retried here, until ``api_timeout_ms``. Source: Kafka protocol guide; KIP-98, KIP-360 (raising the
# epoch), KIP-447 (group metadata), KIP-890.

Response = TypeVar("Response")

_FEATURE: Final = "transaction.version"
_NOT_ATTEMPTED: Final = 55
_FIRST_BACKOFF_MS, _BACKOFF_MAX_MS = 20, 200
_HIGHEST_INIT = 5
_HIGHEST_ADD_PARTITIONS = 3  # later versions are for brokers only
_HIGHEST_ADD_OFFSETS = 4
_HIGHEST_END = {False: 4, True: 5}
_HIGHEST_COMMIT = {False: 4, True: 5}


class Transactions:
    """The requests of one transactional id; ``coordinator_of`` returns the coordinator of a group.

    Every method raises ServerError (FencedError if another producer has taken the id over), ConnectionLost,
    RequestTimeout, and may then be called again.
    """

    def __init__(
        self, cluster: Cluster, coordinator_of: Callable[[str], Coordinator], transactional_id: str, timeout_ms: int = 0
    ) -> None:
        self.transactional_id = transactional_id
        self.second_version = False
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(cluster, transactional_id, Kind.TRANSACTION)
        self._coordinator_of = coordinator_of
        self._channel = cluster.calls.channel
        # Markers are written within milliseconds: a backoff of 100 ms would slow small transactions down.
        options = cluster.calls.options
        self._options = structs.replace(
            options,
            retry_backoff_ms=min(_FIRST_BACKOFF_MS, options.retry_backoff_ms),
            retry_backoff_max_ms=min(_BACKOFF_MAX_MS, options.retry_backoff_max_ms),
        )

    async def init(self, current: ProducerIdentity = NOT_IDEMPOTENT) -> ProducerIdentity:
        """A new identity, which fences the previous producer of the id unless that has ``current``.

        With ``current`` the epoch is raised only if it is still the latest one (InitProducerId v3, KIP-360).
        """
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=current.producer_id,
            producer_epoch=current.epoch,
        )
        what = f"initializing transactional id {self.transactional_id!r} failed"
        answer = await self._ask(
            self._coordinator, request, InitProducerIdResponse, lambda it: _check(it.error_code, what), _HIGHEST_INIT
        )
        if answer.producer_id < 0 or answer.producer_epoch < 0:
            raise ProtocolViolation(f"{what}: the answer has neither an error nor an identity")
        await self.learn()
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    async def learn(self) -> None:
        """Find out the cluster's version of the transaction protocol."""
        self.second_version = (await self._coordinator.versions()).feature(_FEATURE) >= 2

    async def add_partitions(self, identity: ProducerIdentity, partitions: Collection[Partition]) -> None:
        """Add partitions to the transaction."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopicV3(name=topic, partitions=[each.id for each in of_topic])
                for topic, of_topic in by_topic(partitions).items()
            ],
        )

        def check(answer: AddPartitionsToTxnResponse) -> None:
            result = {
                Partition(topic.name, each.partition_index): each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            _check_all(result, partitions, f"adding partitions to a transaction of {self.transactional_id!r} failed")

        await self._ask(self._coordinator, request, AddPartitionsToTxnResponse, check, _HIGHEST_ADD_PARTITIONS)

    async def add_group(self, identity: ProducerIdentity, group: str) -> None:
        """Add a group's offsets to the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group,
        )
        what = f"adding offsets of group {group!r} to a transaction of {self.transactional_id!r} failed"
        await self._ask(
            self._coordinator,
            request,
            AddOffsetsToTxnResponse,
            lambda it: _check(it.error_code, what),
            _HIGHEST_ADD_OFFSETS,
        )

    async def commit_offsets(
        self, identity: ProducerIdentity, offsets: Mapping[Partition, Committed], group: GroupMetadata, *, second: bool
    ) -> None:
        """Commit a group's offsets with the transaction."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=_offsets_by_topic(with_epochs(self._coordinator.cluster, offsets)),
        )

        def check(answer: TxnOffsetCommitResponse) -> None:
            result = {
                Partition(topic.name, each.partition_index): each.error_code
                for topic in answer.topics
                for each in topic.partitions
            }
            _check_all(result, offsets, f"committing offsets of group {group.group!r} in a transaction failed")

        coordinator = self._coordinator_of(group.group)
        await self._ask(coordinator, request, TxnOffsetCommitResponse, check, _HIGHEST_COMMIT[second])

    async def end(self, identity: ProducerIdentity, *, commit: bool, second: bool) -> ProducerIdentity:
        """Commit or abort; returns the identity for the next transaction."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        what = f"{'committing' if commit else 'aborting'} a transaction of {self.transactional_id!r} failed"
        answer = await self._ask(
            self._coordinator, request, EndTxnResponse, lambda it: _check(it.error_code, what), _HIGHEST_END[second]
        )
        await self.learn()
        if answer.producer_id < 0:
            return identity
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    async def _ask(
        self,
        coordinator: Coordinator,
        request: object,
        response: type[Response],
        check: Callable[[Response], None],
        at_most: int,
    ) -> Response:
        retry = Retry(self._channel, self._options)
        while True:
            try:
                answer = await coordinator.call(request, response, at_most=at_most)
                check(answer)
            except PenstockError as error:
                coordinator.note(error)
                await retry.after(error)
            else:
                return answer


def _check(code: int, what: str) -> None:
    if code != NONE:
        raise error_for(code, what)


def _check_all(result: Mapping[Partition, int], asked: Collection[Partition], what: str) -> None:
    # A partition with an error keeps out all others, which then have only NOT_ATTEMPTED: report the real error first.
    for partition, code in sorted(result.items(), key=lambda each: each[1] == _NOT_ATTEMPTED):
        if code != NONE:
            raise error_for(code, what, topic=partition.topic, partition=partition.id)
    if left := sorted(set(asked) - set(result)):
        raise ProtocolViolation(f"{what}: the answer leaves out {', '.join(map(str, left))}")


def _offsets_by_topic(offsets: Mapping[Partition, Committed]) -> list[TxnOffsetCommitRequestTopic]:
    return [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.id,
                    committed_offset=offsets[partition].offset,
                    committed_leader_epoch=offsets[partition].leader_epoch,
                    committed_metadata=offsets[partition].metadata,
                )
                for partition in of_topic
            ],
        )
        for topic, of_topic in by_topic(offsets).items()
    ]


# A sender whose batches belong to transactions.
#
# What ``recover`` does about a failed batch, in order; inside a transaction nothing is ever renumbered:
#
# | failure | action |
# | --- | --- |
# | retriable, or the connection broke | send the same bytes: the broker knows them by their number |
# | OUT_OF_ORDER_SEQUENCE_NUMBER while earlier batches wait | send the same bytes, after them |
# | anything else | give up: the transaction can only be aborted |
#
# A batch that was given up leaves a gap in the sequence numbers, or it is stored without the producer's knowledge. Both
# are harmless once the transaction is aborted and the epoch raised: by EndTxn itself in the second version of the
# protocol, else by InitProducerId with the present identity (KIP-360). The sets below list the errors that end this
# sender for good.
#
# EndTxn is sent only if the cluster may know the transaction: ending an unknown one is an error before the second
# version. A transaction that may have begun by a request without a response has left a gap, too. Source: KIP-98,
# KIP-360, KIP-588, KIP-890.

T = TypeVar("T")

_OUT_OF_ORDER: Final = 45
_HIGHEST_PRODUCE: Final = {False: 11, True: 12}
"""By second version: from v12 on a broker adds the partition of a batch to the transaction by itself."""

_FATAL: Final = frozenset((31, 35, 43, 47, 48, 49, 50, 53, 90))
"""A coordinator's errors that make this identity useless: fenced (47, 90), not allowed (31, 53), unknown (49), out of
step (48), or a feature that the cluster does not have (35, 43, 50)."""

_FATAL_FOR_BATCHES: Final = frozenset((53, 90))
"""The same for Produce, where 47 may come from the transaction's own timeout: EndTxn shows which (KIP-588)."""


class KafkaTransactionalSender(KafkaSender, TransactionalSender):
    """``penstock.interfaces.client.TransactionalSender``."""

    fatal: PenstockError | None = None

    def __init__(self, cluster: Cluster, transactions: Transactions) -> None:
        super().__init__(cluster, idempotent=True)
        self._transactional_id = transactions.transactional_id
        self._transactions = transactions
        self._partitions: set[Partition] = set()
        self._groups: set[str] = set()
        self._touched = False
        self._gap = False
        self._second = False

    async def open(self) -> None:
        """Take over the transactional id."""
        if self._identity == NOT_IDEMPOTENT:
            self._identity = await self._guard(self._transactions.init())

    def begin(self) -> None:
        """Begin a transaction with the next batch."""
        self._second = self._transactions.second_version
        self._highest_produce = _HIGHEST_PRODUCE[self._second]
        self._partitions.clear()
        self._groups.clear()
        self._touched = False

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """One request, after adding its partitions. A lost connection or a timeout becomes each ``Sent.error``."""
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
        """Send one request if its partitions need not be added first; else return False."""
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
        """The batch will not be sent again, though it may be stored."""
        assert isinstance(packed, KafkaPacked)
        numbering = self._numbering.get(packed.partition)
        if numbering is not None and packed in numbering.waiting:
            numbering.waiting.remove(packed)
            self._gap = True

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Commit a group's offsets with the transaction."""
        if not offsets:
            return
        if not self._second and group.group not in self._groups:
            await self._guard(self._transactions.add_group(self._identity, group.group))
            self._groups.add(group.group)
        self._touched = True
        await self._guard(self._transactions.commit_offsets(self._identity, offsets, group, second=self._second))

    def prepared(self) -> PreparedTransaction:
        """The data with which another process can end this transaction."""
        if not self._touched:
            return PreparedTransaction(self._transactions.transactional_id)
        return PreparedTransaction(
            self._transactions.transactional_id, self._identity.producer_id, self._identity.epoch
        )

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; sends nothing if the cluster does not know the transaction."""
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
