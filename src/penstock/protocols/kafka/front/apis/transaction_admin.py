"""DescribeTransactions, ListTransactions, DescribeProducers, WriteTxnMarkers: transactions as operators see them.

Source: Kafka protocol, DescribeTransactions v0, ListTransactions v0-v2, DescribeProducers v0, WriteTxnMarkers v1-v2;
KIP-664 (tools), KIP-994 (duration filter), KIP-1152 (pattern of ids). WriteTxnMarkers is how an operator ends a
transaction that hangs.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.columnar.transactions import end_marker
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.consumer_groups.patterns import flaw_of, matching
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.messages.transaction_admin import (
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
from penstock.protocols.kafka.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from penstock.protocols.kafka.transactions import State

__all__ = ["describe", "describe_producers", "list_all", "write_markers"]

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
    """Serve ListTransactions; a transaction that has begun has a duration."""
    now_ms = call.shared.services.runtime.now_ms()
    wanted, producers = set(request.state_filters), set(request.producer_id_filters)
    all_of_them, pattern = list(call.shared.transactions.all()), request.transactional_id_pattern
    if pattern:
        names = [it.transactional_id for it in all_of_them]
        try:
            meant = await call.shared.beside.run(lambda: _meant(pattern, names))
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
    """Return the ids that match as a whole. Raises Refused."""
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
