"""Transactions, as producers run them: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, WriteTxnMarkers.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequestTransaction:
    """One entry of ``transactions``."""

    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    verify_only: Annotated[bool, BOOL] = False
    topics: Annotated[Sequence[AddPartitionsToTxnRequestTopic], array(AddPartitionsToTxnRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequestTopicV3:
    """One entry of ``v3_and_below_topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """AddPartitionsToTxn request, versions 0-5."""

    API: ClassVar[Api] = Api(24, 0, 5, flexible=3)
    transactions: Annotated[
        Sequence[AddPartitionsToTxnRequestTransaction], array(AddPartitionsToTxnRequestTransaction).since(4)
    ] = ()
    v3_and_below_transactional_id: Annotated[str, STR.between(0, 3)] = ""
    v3_and_below_producer_id: Annotated[int, I64.between(0, 3)] = 0
    v3_and_below_producer_epoch: Annotated[int, I16.between(0, 3)] = 0
    v3_and_below_topics: Annotated[
        Sequence[AddPartitionsToTxnRequestTopicV3], array(AddPartitionsToTxnRequestTopicV3).between(0, 3)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponsePartitionResult:
    """One entry of ``results_by_partition``."""

    partition_index: Annotated[int, I32] = 0
    partition_error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponseTopicResult:
    """One entry of ``topic_results``."""

    name: Annotated[str, STR] = ""
    results_by_partition: Annotated[
        Sequence[AddPartitionsToTxnResponsePartitionResult], array(AddPartitionsToTxnResponsePartitionResult)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponseTransaction:
    """One entry of ``results_by_transaction``."""

    transactional_id: Annotated[str, STR] = ""
    topic_results: Annotated[
        Sequence[AddPartitionsToTxnResponseTopicResult], array(AddPartitionsToTxnResponseTopicResult)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """AddPartitionsToTxn response, versions 0-5."""

    API: ClassVar[Api] = Api(24, 0, 5, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16.since(4).ignorable()] = 0
    results_by_transaction: Annotated[
        Sequence[AddPartitionsToTxnResponseTransaction], array(AddPartitionsToTxnResponseTransaction).since(4)
    ] = ()
    results_by_topic_v3_and_below: Annotated[
        Sequence[AddPartitionsToTxnResponseTopicResult], array(AddPartitionsToTxnResponseTopicResult).between(0, 3)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """AddOffsetsToTxn request, versions 0-4."""

    API: ClassVar[Api] = Api(25, 0, 4, flexible=3)
    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    group_id: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """AddOffsetsToTxn response, versions 0-4."""

    API: ClassVar[Api] = Api(25, 0, 4, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    """EndTxn request, versions 0-5."""

    API: ClassVar[Api] = Api(26, 0, 5, flexible=3)
    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    committed: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse:
    """EndTxn response, versions 0-5."""

    API: ClassVar[Api] = Api(26, 0, 5, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    producer_id: Annotated[int, I64.since(5).ignorable()] = -1
    producer_epoch: Annotated[int, I16.since(5).ignorable()] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    committed_offset: Annotated[int, I64] = 0
    committed_leader_epoch: Annotated[int, I32.since(2).ignorable()] = -1
    committed_metadata: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 5).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[TxnOffsetCommitRequestPartition], array(TxnOffsetCommitRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """TxnOffsetCommit request, versions 0-6."""

    API: ClassVar[Api] = Api(28, 0, 6, flexible=3)
    transactional_id: Annotated[str, STR] = ""
    group_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    generation_id_or_member_epoch: Annotated[int, I32.since(3)] = -1
    member_id: Annotated[str, STR.since(3)] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3)] = None
    topics: Annotated[Sequence[TxnOffsetCommitRequestTopic], array(TxnOffsetCommitRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 5).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[TxnOffsetCommitResponsePartition], array(TxnOffsetCommitResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """TxnOffsetCommit response, versions 0-6."""

    API: ClassVar[Api] = Api(28, 0, 6, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[TxnOffsetCommitResponseTopic], array(TxnOffsetCommitResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequestMarker:
    """One entry of ``markers``."""

    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    transaction_result: Annotated[bool, BOOL] = False
    topics: Annotated[Sequence[WriteTxnMarkersRequestTopic], array(WriteTxnMarkersRequestTopic)] = ()
    coordinator_epoch: Annotated[int, I32] = 0
    transaction_version: Annotated[int, I8.since(2).ignorable()] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """WriteTxnMarkers request, versions 1-2."""

    API: ClassVar[Api] = Api(27, 1, 2, flexible=1)
    markers: Annotated[Sequence[WriteTxnMarkersRequestMarker], array(WriteTxnMarkersRequestMarker)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[WriteTxnMarkersResponsePartition], array(WriteTxnMarkersResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponseMarker:
    """One entry of ``markers``."""

    producer_id: Annotated[int, I64] = 0
    topics: Annotated[Sequence[WriteTxnMarkersResponseTopic], array(WriteTxnMarkersResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    """WriteTxnMarkers response, versions 1-2."""

    API: ClassVar[Api] = Api(27, 1, 2, flexible=1)
    markers: Annotated[Sequence[WriteTxnMarkersResponseMarker], array(WriteTxnMarkersResponseMarker)] = ()
