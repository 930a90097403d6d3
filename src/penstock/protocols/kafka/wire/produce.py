"""What producers send: Produce, InitProducerId and the requests of transactions; Produce of one batch by its layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, NamedTuple

from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffer, Buffers
from penstock.model import Partition
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
from penstock.protocols.kafka.wire.framing import request, response

__all__ = ["ProduceForm"]


# Writing to a log: InitProducerId and Produce.
#
# Wire names in snake case. No behaviour here: ``codec`` reads and writes. Source: Apache Kafka protocol guide, message
# schemas of 4.3.
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


# Transactions, as producers run them: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, WriteTxnMarkers.
#
# Wire names in snake case. No behaviour here: ``codec`` reads and writes. Source: Apache Kafka protocol guide, message
# schemas of 4.4.
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


# One batch to one partition as a form: all bytes of its request that are always the same, and of its answer.
#
# A producer's small requests differ in their correlation id and their records, and nearly all their answers in offset
# and times only. Which bytes those are is found by writing both with the codec, once a partition and version; nothing
# here knows how either is laid out. An answer that says anything else is for the codec.
_MARK: Final = b"\xa5" * 1_000
"""Records that stand nowhere else in a request: no letter of its texts begins with such a byte in UTF-8."""

_SMALL: Final = 16_384
"""So many bytes are sent in one piece; the connection would join them all the same."""

_ANSWER_WITH_TIME: Final = 2
_SIZE: Final = 4
_CORRELATION: Final = 4
_OFFSET_AND_TIME: Final = struct.Struct(">qq")


class _Span(NamedTuple):
    first: int
    end: int


class ProduceForm:
    """Of one partition in one version. ``client_id`` and the rest stand in every request."""

    __slots__ = ("_compact", "_head", "_same", "_size", "_tail", "_told_at")

    def __init__(
        self,
        partition: Partition,
        version: int,
        client_id: str | None,
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
    ) -> None:
        part = ProduceRequestPartition(index=partition.id, records=_MARK)
        topic = ProduceRequestTopic(name=partition.topic, partition_data=[part])
        asked = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        whole = b"".join(request(asked, version, client_id)(0))
        at = whole.index(_MARK)
        self._compact = ProduceRequest.API.is_flexible(version)
        length = len(_length(len(_MARK), compact=self._compact))
        api = whole[_SIZE : _SIZE + 4]
        self._head = (api, whole[_SIZE + 4 + _CORRELATION : at - length])
        self._tail = whole[at + len(_MARK) :]
        self._same, self._told_at, self._size = _answer(partition, version)

    def fill(self, records: Buffer) -> Outgoing:
        """The request for these records; many of them are not copied here."""
        api, rest = self._head
        length = _length(len(records), compact=self._compact)
        count = len(records)
        size = len(api) + _CORRELATION + len(rest) + len(length) + count + len(self._tail)

        def frame(correlation: int) -> Buffers:
            before = (size.to_bytes(4, "big"), api, correlation.to_bytes(4, "big"), rest, length)
            if count <= _SMALL:
                return (b"".join((*before, records, self._tail)),)
            return (b"".join(before), records, self._tail)

        return frame

    def stored(self, body: memoryview) -> tuple[int, int] | None:
        """Where this answer says the batch is stored; None if it says anything else, or in another way.

        That is the base offset, and the log's time in ms, -1 where the log does not stamp records.
        """
        if len(body) != self._size:
            return None
        for first, end, same in self._same:
            if body[first:end] != same:
                return None
        base_offset, timestamp_ms = _OFFSET_AND_TIME.unpack_from(body, self._told_at)
        return base_offset, timestamp_ms


def _length(size: int, *, compact: bool) -> bytes:
    """The length of records as a request says it. Source: Kafka protocol guide, COMPACT_RECORDS and RECORDS."""
    if not compact:
        return size.to_bytes(4, "big")
    rest = size + 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _answer(partition: Partition, version: int) -> tuple[list[tuple[int, int, bytes]], int, int]:
    """What is the same in all good answers, by place; where offset and time stand; and how long such an answer is.

    Found by comparing two answers that differ in every bit of what may differ.
    """
    if version < _ANSWER_WITH_TIME:
        return [], 0, -1
    low, high = _told(partition, version, 0), _told(partition, version, -1)
    differing = [at for at, (one, other) in enumerate(zip(low, high, strict=True)) if one != other]
    spans = [_Span(0, _CORRELATION)]
    for at in differing:
        if spans[-1].end == at:
            spans[-1] = spans[-1]._replace(end=at + 1)
        else:
            spans.append(_Span(at, at + 1))
    ends = [*(span.first for span in spans[1:]), len(low)]
    same = [(span.end, end, low[span.end : end]) for span, end in zip(spans, ends, strict=True) if span.end < end]
    return same, spans[1].first, len(low)


def _told(partition: Partition, version: int, number: int) -> bytes:
    """The body of an answer that has ``number`` wherever a good answer may have any."""
    part = ProduceResponsePartition(
        index=partition.id, base_offset=number, log_append_time_ms=number, log_start_offset=number
    )
    topic = ProduceResponseTopic(name=partition.topic, partition_responses=[part])
    pieces = response(ProduceResponse(responses=[topic], throttle_time_ms=number), version, 0)
    return b"".join(piece for piece in pieces if isinstance(piece, Buffer))[_SIZE:]
