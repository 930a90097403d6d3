"""The requests of one transactional id to its coordinators: get an identity, take partitions and offsets in, end.

Two versions of the protocol (the cluster's feature ``transaction.version``):

| | 0 and 1 | 2 (KIP-890) |
| --- | --- | --- |
| a partition takes part | AddPartitionsToTxn before its first batch | by its first batch (Produce v12) |
| a group's offsets take part | AddOffsetsToTxn before them | by TxnOffsetCommit v5 |
| after the end | the same epoch goes on | EndTxn v5 answers with the next epoch |

Retriable answers (a coordinator that moved, CONCURRENT_TRANSACTIONS while the markers of the last transaction are being
written) are waited out here, until ``api_timeout_ms``. What must not live here: what belongs to the transaction now.
Source: Kafka protocol guide; KIP-98, KIP-360 (raising the epoch), KIP-447 (group metadata), KIP-890.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from penstock.errors import PenstockError, ProtocolViolation
from penstock.model import Committed, GroupMetadata, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.committing import with_epochs
from penstock.protocols.kafka.client.coordinator import Coordinator, Kind
from penstock.protocols.kafka.client.routing import by_topic
from penstock.protocols.kafka.client.sequences import NOT_IDEMPOTENT, ProducerIdentity
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocols.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopicV3,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.seams.retry import Retry

__all__ = ["Transactions"]

Response = TypeVar("Response")

_FEATURE: Final = "transaction.version"
_NOT_ATTEMPTED: Final = 55
_FIRST_BACKOFF_MS, _BACKOFF_MAX_MS = 20, 200
_HIGHEST_INIT = 5
_HIGHEST_ADD_PARTITIONS = 3  # later ones are for brokers among themselves
_HIGHEST_ADD_OFFSETS = 4
_HIGHEST_END = {False: 4, True: 5}
_HIGHEST_COMMIT = {False: 4, True: 5}


class Transactions:
    """``coordinator_of`` finds the coordinator of a group. Every method raises ServerError (FencedError where another
    producer has taken the transactional id over), ConnectionLost, RequestTimeout, and may then be called again."""

    def __init__(
        self, cluster: Cluster, coordinator_of: Callable[[str], Coordinator], transactional_id: str, timeout_ms: int = 0
    ) -> None:
        self.transactional_id = transactional_id
        self.second_version = False
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(cluster, transactional_id, Kind.TRANSACTION)
        self._coordinator_of = coordinator_of
        self._channel = cluster.calls.channel
        # Markers are written within milliseconds; who waits 100 for them makes small transactions slow.
        options = cluster.calls.options
        self._options = dataclasses.replace(
            options,
            retry_backoff_ms=min(_FIRST_BACKOFF_MS, options.retry_backoff_ms),
            retry_backoff_max_ms=min(_BACKOFF_MAX_MS, options.retry_backoff_max_ms),
        )

    async def init(self, current: ProducerIdentity = NOT_IDEMPOTENT) -> ProducerIdentity:
        """A new identity: whoever had the transactional id before is fenced, unless it is ``current``'s holder.

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
        """Find out which version of the protocol the cluster speaks."""
        self.second_version = (await self._coordinator.versions()).feature(_FEATURE) >= 2

    async def add_partitions(self, identity: ProducerIdentity, partitions: Collection[Partition]) -> None:
        """They take part in the transaction from now on."""
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
            told = {
                Partition(topic.name, each.partition_index): each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            _check_all(told, partitions, f"adding partitions to a transaction of {self.transactional_id!r} failed")

        await self._ask(self._coordinator, request, AddPartitionsToTxnResponse, check, _HIGHEST_ADD_PARTITIONS)

    async def add_group(self, identity: ProducerIdentity, group: str) -> None:
        """The group's offsets take part in the transaction from now on."""
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
        """Offsets that become the group's when the transaction commits."""
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
            told = {
                Partition(topic.name, each.partition_index): each.error_code
                for topic in answer.topics
                for each in topic.partitions
            }
            _check_all(told, offsets, f"committing offsets of group {group.group!r} in a transaction failed")

        coordinator = self._coordinator_of(group.group)
        await self._ask(coordinator, request, TxnOffsetCommitResponse, check, _HIGHEST_COMMIT[second])

    async def end(self, identity: ProducerIdentity, *, commit: bool, second: bool) -> ProducerIdentity:
        """Commit or abort; returns the identity to go on with."""
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


def _check_all(told: Mapping[Partition, int], asked: Collection[Partition], what: str) -> None:
    # One partition's trouble keeps all others out, which then say only that: NOT_ATTEMPTED explains nothing.
    for partition, code in sorted(told.items(), key=lambda each: each[1] == _NOT_ATTEMPTED):
        if code != NONE:
            raise error_for(code, what, topic=partition.topic, partition=partition.id)
    if left := sorted(set(asked) - set(told)):
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
