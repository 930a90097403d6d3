"""Transaction APIs: requests of transactional producers, and requests of operators about transactions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.concurrency.limits import NoRoom
from penstock.errors import PenstockError
from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import CommitIdentity
from penstock.protocols.kafka.groups.consumer_transitions import flaw_of, matching
from penstock.protocols.kafka.server.apis.fetch import partitions_of
from penstock.protocols.kafka.server.fetch_sessions import Key
from penstock.protocols.kafka.server.front import Call
from penstock.protocols.kafka.server.limits import is_internal, no_room
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.transactions import State
from penstock.protocols.kafka.wire.coordinator_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseActiveProducer,
    DescribeProducersResponsePartition,
    DescribeProducersResponseTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from penstock.protocols.kafka.wire.produce import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartitionResult,
    AddPartitionsToTxnResponseTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from penstock.records.batch import end_marker

__all__ = [
    "add_offsets",
    "add_partitions",
    "commit_offsets",
    "describe",
    "describe_producers",
    "end",
    "list_all",
    "write_markers",
]

# Requests of transactional producers: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.
#
# Source: Kafka protocol, AddPartitionsToTxn v0-v3 (later versions are for brokers only), AddOffsetsToTxn v0-v4,
# TxnOffsetCommit v0-v6, EndTxn v0-v5; KIP-98, KIP-447, KIP-890, KIP-1319 (topic ids in TxnOffsetCommit v6).

_FENCED_SINCE = 2
_LUMP = 500
"""Offsets that are written in one batch."""
_SECOND_END_SINCE = 5
_SECOND_COMMIT_SINCE = 5
_IDS_SINCE = 6
_SINCE_IDS = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
"""Older versions have ILLEGAL_GENERATION instead."""
_AFTER_THE_GROUP = (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)


async def add_partitions(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Serve AddPartitionsToTxn: adds all partitions or none."""
    asked = [
        Partition(topic.name, each)
        async for topic in call.pace.again(request.v3_and_below_topics, 0.5)
        async for each in call.pace.again(topic.partitions)
    ]
    codes = {each: await _fault(call, each) or _inability(call, each) for each in dict.fromkeys(asked)}
    if ErrorCode.COORDINATOR_NOT_AVAILABLE in codes.values():
        codes = dict.fromkeys(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif any(codes.values()):
        codes = {each: fault or ErrorCode.OPERATION_NOT_ATTEMPTED for each, fault in codes.items()}
    else:
        codes = dict.fromkeys(asked, await _add(call, request, asked))
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnResponseTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnResponsePartitionResult(
                        partition_index=each, partition_error_code=codes[Partition(topic.name, each)]
                    )
                    async for each in call.pace.again(topic.partitions)
                ],
            )
            async for topic in call.pace.again(request.v3_and_below_topics, 0.5)
        ]
    )


async def _add(call: Call, request: AddPartitionsToTxnRequest, partitions: list[Partition]) -> ErrorCode:
    try:
        code = await call.shared.transactions.add(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            partitions,
            second=False,
            host=call.connection.address.host,
        )
    except PenstockError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _in_version(call, code)


async def add_offsets(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Serve AddOffsetsToTxn: adds the journal's partition that stores the group's offsets."""
    shared = call.shared
    try:
        place = await shared.offsets.place_of(request.group_id)
        code = await shared.transactions.add(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [place],
            second=False,
            host=call.connection.address.host,
        )
    except PenstockError:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return AddOffsetsToTxnResponse(error_code=_in_version(call, code))


async def end(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Serve EndTxn: answered when the decision is durable and all markers are written."""
    try:
        code, producer_id, epoch = await call.shared.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            second=call.version >= _SECOND_END_SINCE,
        )
    except PenstockError:
        code, producer_id, epoch = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1
    return EndTxnResponse(error_code=_in_version(call, code), producer_id=producer_id, producer_epoch=epoch)


async def commit_offsets(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Serve TxnOffsetCommit: the offsets are durable, and pending until the transaction ends."""
    rows = {
        _key(call, topic, each): each
        async for topic in call.pace.again(request.topics, 0.5)
        async for each in call.pace.again(topic.partitions)
    }
    found = await partitions_of(call.shared, rows, ErrorCode.COORDINATOR_NOT_AVAILABLE, call.pace)
    named = [(each.topic, each.id) for each in found.values() if isinstance(each, Partition)]
    codes: dict[Key, ErrorCode] = {}
    offsets = await _offsets(call, rows, found, codes)
    # This is checked once more in the transactional id's turn.
    code = _may_commit(call, request, named)
    if code:
        # The order of precedence: an unknown topic, then the group's error, then that of the metadata.
        codes = {key: code if each in _AFTER_THE_GROUP else each for key, each in codes.items()}
    else:
        left = list(offsets.items())
        for at in range(0, len(left), _LUMP):
            lump = dict(left[at : at + _LUMP])
            if at:
                await call.pace.spend(0, 2 * len(lump))
            code = await _commit(call, request, lump, named)
            codes.update((key, code) for key, place in found.items() if code and place in lump)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=codes[_key(call, topic, each)]
                    )
                    async for each in call.pace.again(topic.partitions)
                ],
            )
            async for topic in call.pace.again(request.topics, 0.5)
        ]
    )


def _key(call: Call, topic: TxnOffsetCommitRequestTopic, part: TxnOffsetCommitRequestPartition) -> Key:
    return topic.topic_id if call.version >= _IDS_SINCE else topic.name, part.partition_index


def _may_commit(call: Call, request: TxnOffsetCommitRequest, partitions: Collection[tuple[str, int]]) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    identity = CommitIdentity(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        call.connection.address.host,
    )
    code = call.shared.groups.may_commit_within(identity, partitions)
    return ErrorCode.ILLEGAL_GENERATION if code in _SINCE_IDS and call.version < _IDS_SINCE else code


def _look(call: Call, request: TxnOffsetCommitRequest, partitions: Collection[tuple[str, int]]) -> None:
    if code := _may_commit(call, request, partitions):
        raise Refused(code)


async def _offsets(
    call: Call,
    rows: Mapping[Key, TxnOffsetCommitRequestPartition],
    found: Mapping[Key, Partition | ErrorCode],
    codes: dict[Key, ErrorCode],
) -> Mapping[Partition, Committed]:
    """The offsets that can be committed; every row gets its code in ``codes``."""
    now_ms = call.shared.services.runtime.now_ms()
    offsets: dict[Partition, Committed] = {}
    for key, each in rows.items():
        place, metadata = found[key], each.committed_metadata or ""
        codes[key] = place if isinstance(place, ErrorCode) else await _fault(call, place)
        if isinstance(place, ErrorCode) or codes[key]:
            continue
        if len(metadata) > call.shared.options.offset_metadata_max_bytes:
            codes[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            offsets[place] = Committed(each.committed_offset, metadata, each.committed_leader_epoch, now_ms)
    return offsets


async def _commit(
    call: Call,
    request: TxnOffsetCommitRequest,
    offsets: Mapping[Partition, Committed],
    partitions: Collection[tuple[str, int]],
) -> ErrorCode:
    try:
        code = await call.shared.transactions.commit_offsets(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.group_id,
            offsets,
            lambda: _look(call, request, partitions),
            second=call.version >= _SECOND_COMMIT_SINCE,
            host=call.connection.address.host,
        )
    except Refused as refused:
        return refused.code
    except NoRoom as error:
        return no_room(error)
    except PenstockError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


async def _fault(call: Call, partition: Partition) -> ErrorCode:
    await call.pace.spend(1, 2)
    if is_internal(partition.topic):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return await call.shared.fault_of(partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _inability(call: Call, partition: Partition) -> ErrorCode:
    """The code for a topic whose log has no transactions although others have: producers abort and report the topic."""
    able = call.shared.enode.abilities_of(partition.topic).transactions
    return ErrorCode.NONE if able else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _in_version(call: Call, code: ErrorCode) -> ErrorCode:
    """The code for a fenced producer in this version."""
    if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


# Requests of operators: DescribeTransactions, ListTransactions, DescribeProducers, WriteTxnMarkers.
#
# Source: Kafka protocol, DescribeTransactions v0, ListTransactions v0-v2, DescribeProducers v0, WriteTxnMarkers v1-v2;
# KIP-664 (tools), KIP-994 (duration filter), KIP-1152 (pattern of ids). An operator ends a hanging transaction with
# WriteTxnMarkers.

_STATES = {state.value for state in State}
_LARGEST_SEQUENCE = 2**31 - 1


async def describe(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Serve DescribeTransactions."""
    return DescribeTransactionsResponse(
        transaction_states=[
            _described(call, each) async for each in call.pace.through(dict.fromkeys(request.transactional_ids))
        ]
    )


def _described(call: Call, transactional_id: str) -> DescribeTransactionsResponseTransactionState:
    it = call.shared.transactions.get(transactional_id)
    if it is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribeTransactionsResponseTransactionState(error_code=code, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for partition in sorted(it.partitions):
        topics.setdefault(partition.topic, []).append(partition.id)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=transactional_id,
        transaction_state=it.state,
        transaction_timeout_ms=it.timeout_ms,
        transaction_start_time_ms=it.started_ms,
        producer_id=it.producer_id,
        producer_epoch=it.epoch,
        topics=[DescribeTransactionsResponseTopic(topic=topic, partitions=ids) for topic, ids in topics.items()],
    )


async def list_all(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Serve ListTransactions; only a transaction that has begun has a duration."""
    now_ms = call.shared.services.runtime.now_ms()
    wanted, producers = set(request.state_filters), set(request.producer_id_filters)
    all_of_them, pattern = list(call.shared.transactions.all()), request.transactional_id_pattern
    if pattern:
        names = [it.transactional_id for it in all_of_them]
        try:
            meant = await call.shared.worker.run(lambda: _meant(pattern, names))
        except Refused as error:
            return ListTransactionsResponse(error_code=code_of(error))
        all_of_them = [it for it in all_of_them if it.transactional_id in meant]
    found = [
        ListTransactionsResponseTransactionState(
            transactional_id=it.transactional_id, producer_id=it.producer_id, transaction_state=it.state
        )
        async for it in call.pace.through(all_of_them, 0.5)
        if (not wanted or it.state in wanted)
        and (not producers or it.producer_id in producers)
        and (request.duration_filter < 0 or (it.started_ms >= 0 and now_ms - it.started_ms > request.duration_filter))
    ]
    return ListTransactionsResponse(unknown_state_filters=sorted(wanted - _STATES), transaction_states=found)


def _meant(pattern: str, ids: Collection[str]) -> frozenset[str]:
    """The ids that match the whole pattern. Raises Refused."""
    if (flaw := flaw_of(pattern)) is not None:
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"`{pattern}` is not a valid regular expression: {flaw}")
    return matching(pattern, ids)


async def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Serve DescribeProducers."""
    topics = []
    for topic in request.topics:
        await call.pace.spend(0, 0.5)
        parts = [await _producers(call, Partition(topic.name, each)) for each in topic.partition_indexes]
        topics.append(DescribeProducersResponseTopic(name=topic.name, partitions=parts))
    return DescribeProducersResponse(topics=topics)


async def _producers(call: Call, partition: Partition) -> DescribeProducersResponsePartition:
    await call.pace.spend(1, 2)
    try:
        writers = await call.shared.enode.writers(partition)
    except PenstockError as error:
        return DescribeProducersResponsePartition(
            partition_index=partition.id, error_code=code_of(error), error_message=error.message
        )
    await call.pace.spend(len(writers), len(writers) / 2)
    return DescribeProducersResponsePartition(
        partition_index=partition.id,
        active_producers=[
            DescribeProducersResponseActiveProducer(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.seen_ms,
                coordinator_epoch=-1 if each.open_since < 0 else _coordinator_epoch(call),
                current_txn_start_offset=each.open_since,
            )
            for each in writers
        ],
    )


def _coordinator_epoch(call: Call) -> int:
    return min(call.shared.services.identity.epoch, _LARGEST_SEQUENCE)


async def write_markers(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Serve WriteTxnMarkers."""
    return WriteTxnMarkersResponse(markers=[await _write(call, marker) for marker in request.markers])


async def _write(call: Call, wanted: WriteTxnMarkersRequestMarker) -> WriteTxnMarkersResponseMarker:
    await call.pace.spend(1, 3)
    marker = end_marker(
        wanted.producer_id,
        wanted.producer_epoch,
        commit=wanted.transaction_result,
        coordinator_epoch=wanted.coordinator_epoch,
        now_ms=call.shared.services.runtime.now_ms(),
    )
    topics = []
    for topic in wanted.topics:
        await call.pace.spend(0, 0.5)
        parts = []
        for number in topic.partition_indexes:
            code = await _mark(call, Partition(topic.name, number), wanted, marker)
            parts.append(WriteTxnMarkersResponsePartition(partition_index=number, error_code=code))
        topics.append(WriteTxnMarkersResponseTopic(name=topic.name, partitions=parts))
    return WriteTxnMarkersResponseMarker(producer_id=wanted.producer_id, topics=topics)


async def _mark(call: Call, partition: Partition, wanted: WriteTxnMarkersRequestMarker, marker: bytes) -> ErrorCode:
    await call.pace.spend(1, 5)
    if fault := await call.shared.fault_of(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        return fault
    try:
        await call.shared.transactions.markers.write_one(
            partition, wanted.producer_id, marker, commit=wanted.transaction_result
        )
    except PenstockError as error:
        return code_of(error)
    return ErrorCode.NONE
