"""Messages of producers: Produce, InitProducerId, and the requests of transactions.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3 (transactions: 4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.interfaces.framing import Buffer
from penstock.protocols.kafka.wire.declarations import (
    BOOL,
    I8,
    I16,
    I32,
    I64,
    NO_UUID,
    RECORDS,
    STR,
    UUID,
    Api,
    Message,
    array,
    struct_field,
)


# InitProducerId and Produce.
class InitProducerIdRequest(Message):
    """InitProducerId request, versions 0-6."""

    API: ClassVar[Api] = Api(22, 0, 6, flexible=2)
    transactional_id: Annotated[str | None, STR.nullable()] = ""
    transaction_timeout_ms: Annotated[int, I32] = 0
    producer_id: Annotated[int, I64.since(3)] = -1
    producer_epoch: Annotated[int, I16.since(3)] = -1
    enable_2pc: Annotated[bool, BOOL.since(6)] = False
    keep_prepared_txn: Annotated[bool, BOOL.since(6)] = False


class InitProducerIdResponse(Message):
    """InitProducerId response, versions 0-6."""

    API: ClassVar[Api] = Api(22, 0, 6, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    producer_id: Annotated[int, I64] = -1
    producer_epoch: Annotated[int, I16] = 0
    ongoing_txn_producer_id: Annotated[int, I64.since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[int, I16.since(6)] = -1


class ProduceRequestPartition(Message):
    """One entry of ``partition_data``."""

    index: Annotated[int, I32] = 0
    records: Annotated[Buffer | None, RECORDS.nullable()] = b""


class ProduceRequestTopic(Message):
    """One entry of ``topic_data``."""

    name: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partition_data: Annotated[Sequence[ProduceRequestPartition], array(ProduceRequestPartition)] = ()


class ProduceRequest(Message):
    """Produce request, versions 0-13."""

    API: ClassVar[Api] = Api(0, 0, 13, flexible=9)
    transactional_id: Annotated[str | None, STR.nullable().since(3)] = None
    acks: Annotated[int, I16] = 0
    timeout_ms: Annotated[int, I32] = 0
    topic_data: Annotated[Sequence[ProduceRequestTopic], array(ProduceRequestTopic)] = ()


class ProduceResponseRecordError(Message):
    """One entry of ``record_errors``."""

    batch_index: Annotated[int, I32] = 0
    batch_index_error_message: Annotated[str | None, STR.nullable()] = None


class ProduceResponseCurrentLeader(Message):
    """The ``current_leader`` struct."""

    leader_id: Annotated[int, I32] = -1
    leader_epoch: Annotated[int, I32] = -1


class ProduceResponsePartition(Message):
    """One entry of ``partition_responses``."""

    index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    base_offset: Annotated[int, I64] = 0
    log_append_time_ms: Annotated[int, I64.since(2).ignorable()] = -1
    log_start_offset: Annotated[int, I64.since(5).ignorable()] = -1
    record_errors: Annotated[
        Sequence[ProduceResponseRecordError], array(ProduceResponseRecordError).since(8).ignorable()
    ] = ()
    error_message: Annotated[str | None, STR.nullable().since(8).ignorable()] = None
    current_leader: Annotated[
        ProduceResponseCurrentLeader, struct_field(ProduceResponseCurrentLeader).tag(0).since(10).ignorable()
    ] = ProduceResponseCurrentLeader()


class ProduceResponseTopic(Message):
    """One entry of ``responses``."""

    name: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partition_responses: Annotated[Sequence[ProduceResponsePartition], array(ProduceResponsePartition)] = ()


class ProduceResponseNodeEndpoint(Message):
    """One entry of ``node_endpoints``."""

    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None


class ProduceResponse(Message):
    """Produce response, versions 0-13."""

    API: ClassVar[Api] = Api(0, 0, 13, flexible=9)
    responses: Annotated[Sequence[ProduceResponseTopic], array(ProduceResponseTopic)] = ()
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    node_endpoints: Annotated[
        Sequence[ProduceResponseNodeEndpoint], array(ProduceResponseNodeEndpoint).tag(0).since(10).ignorable()
    ] = ()


# Transactions: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, WriteTxnMarkers.
class AddPartitionsToTxnRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class AddPartitionsToTxnRequestTransaction(Message):
    """One entry of ``transactions``."""

    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    verify_only: Annotated[bool, BOOL] = False
    topics: Annotated[Sequence[AddPartitionsToTxnRequestTopic], array(AddPartitionsToTxnRequestTopic)] = ()


class AddPartitionsToTxnRequestTopicV3(Message):
    """One entry of ``v3_and_below_topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class AddPartitionsToTxnRequest(Message):
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


class AddPartitionsToTxnResponsePartitionResult(Message):
    """One entry of ``results_by_partition``."""

    partition_index: Annotated[int, I32] = 0
    partition_error_code: Annotated[int, I16] = 0


class AddPartitionsToTxnResponseTopicResult(Message):
    """One entry of ``topic_results``."""

    name: Annotated[str, STR] = ""
    results_by_partition: Annotated[
        Sequence[AddPartitionsToTxnResponsePartitionResult], array(AddPartitionsToTxnResponsePartitionResult)
    ] = ()


class AddPartitionsToTxnResponseTransaction(Message):
    """One entry of ``results_by_transaction``."""

    transactional_id: Annotated[str, STR] = ""
    topic_results: Annotated[
        Sequence[AddPartitionsToTxnResponseTopicResult], array(AddPartitionsToTxnResponseTopicResult)
    ] = ()


class AddPartitionsToTxnResponse(Message):
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


class AddOffsetsToTxnRequest(Message):
    """AddOffsetsToTxn request, versions 0-4."""

    API: ClassVar[Api] = Api(25, 0, 4, flexible=3)
    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    group_id: Annotated[str, STR] = ""


class AddOffsetsToTxnResponse(Message):
    """AddOffsetsToTxn response, versions 0-4."""

    API: ClassVar[Api] = Api(25, 0, 4, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


class EndTxnRequest(Message):
    """EndTxn request, versions 0-5."""

    API: ClassVar[Api] = Api(26, 0, 5, flexible=3)
    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    committed: Annotated[bool, BOOL] = False


class EndTxnResponse(Message):
    """EndTxn response, versions 0-5."""

    API: ClassVar[Api] = Api(26, 0, 5, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    producer_id: Annotated[int, I64.since(5).ignorable()] = -1
    producer_epoch: Annotated[int, I16.since(5).ignorable()] = -1


class TxnOffsetCommitRequestPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    committed_offset: Annotated[int, I64] = 0
    committed_leader_epoch: Annotated[int, I32.since(2).ignorable()] = -1
    committed_metadata: Annotated[str | None, STR.nullable()] = ""


class TxnOffsetCommitRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 5).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[TxnOffsetCommitRequestPartition], array(TxnOffsetCommitRequestPartition)] = ()


class TxnOffsetCommitRequest(Message):
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


class TxnOffsetCommitResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


class TxnOffsetCommitResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR.between(0, 5).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[TxnOffsetCommitResponsePartition], array(TxnOffsetCommitResponsePartition)] = ()


class TxnOffsetCommitResponse(Message):
    """TxnOffsetCommit response, versions 0-6."""

    API: ClassVar[Api] = Api(28, 0, 6, flexible=3)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[TxnOffsetCommitResponseTopic], array(TxnOffsetCommitResponseTopic)] = ()


class WriteTxnMarkersRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


class WriteTxnMarkersRequestMarker(Message):
    """One entry of ``markers``."""

    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    transaction_result: Annotated[bool, BOOL] = False
    topics: Annotated[Sequence[WriteTxnMarkersRequestTopic], array(WriteTxnMarkersRequestTopic)] = ()
    coordinator_epoch: Annotated[int, I32] = 0
    transaction_version: Annotated[int, I8.since(2).ignorable()] = 0


class WriteTxnMarkersRequest(Message):
    """WriteTxnMarkers request, versions 1-2."""

    API: ClassVar[Api] = Api(27, 1, 2, flexible=1)
    markers: Annotated[Sequence[WriteTxnMarkersRequestMarker], array(WriteTxnMarkersRequestMarker)] = ()


class WriteTxnMarkersResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


class WriteTxnMarkersResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[WriteTxnMarkersResponsePartition], array(WriteTxnMarkersResponsePartition)] = ()


class WriteTxnMarkersResponseMarker(Message):
    """One entry of ``markers``."""

    producer_id: Annotated[int, I64] = 0
    topics: Annotated[Sequence[WriteTxnMarkersResponseTopic], array(WriteTxnMarkersResponseTopic)] = ()


class WriteTxnMarkersResponse(Message):
    """WriteTxnMarkers response, versions 1-2."""

    API: ClassVar[Api] = Api(27, 1, 2, flexible=1)
    markers: Annotated[Sequence[WriteTxnMarkersResponseMarker], array(WriteTxnMarkersResponseMarker)] = ()
