"""DescribeCluster, DescribeTopicPartitions, OffsetForLeaderEpoch.

Source: Kafka protocol, DescribeCluster v0-v2 (KIP-700, KIP-1073: fenced brokers), DescribeTopicPartitions v0 (KIP-966),
OffsetForLeaderEpoch v0-v4 (KIP-320).
"""

from __future__ import annotations

from penstock.errors import PenstockError, UpstreamLost
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call, is_internal
from penstock.protocols.kafka.front.faults import code_of
from penstock.protocols.kafka.front.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, shown
from penstock.protocols.kafka.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseNextCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocols.kafka.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from penstock.seams.enode import TopicState

__all__ = ["describe_cluster", "describe_topic_partitions", "offset_for_leader_epoch"]

_BROKERS = 1
_MOST_PARTITIONS = 2_000


async def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Serve DescribeCluster: a cluster of one, which is never fenced."""
    shared = call.shared
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoints of type {request.endpoint_type} are not here",
            endpoint_type=request.endpoint_type,
        )
    broker = DescribeClusterResponseBroker(
        broker_id=shared.node_id, host=shared.advertised.host, port=shared.advertised.port
    )
    return DescribeClusterResponse(
        cluster_id=shared.services.identity.cluster_id,
        controller_id=shared.node_id,
        brokers=[broker],
        cluster_authorized_operations=shown(CLUSTER_OPERATIONS, request.include_cluster_authorized_operations),
    )


async def describe_topic_partitions(
    call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Serve DescribeTopicPartitions: topics by name, cut off at the limit, to be continued at the cursor."""
    names = sorted({topic.name for topic in request.topics} or {topic.name for topic in await call.shared.all_topics()})
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(0, request.cursor.partition_index)
    left = max(1, min(request.response_partition_limit, _MOST_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        await call.pace.spend(1, 2)
        try:
            found = await call.shared.enode.topic(name)
        except UpstreamLost:
            topics.append(_fault(name, ErrorCode.LEADER_NOT_AVAILABLE))
            continue
        count = found.partitions if found else 0
        if left <= 0:
            cursor = DescribeTopicPartitionsResponseNextCursor(topic_name=name, partition_index=0)
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)
        last = min(count, first + left)
        topics.append(await _page(call, name, found, range(first, last)))
        left -= last - first
        if last < count:
            cursor = DescribeTopicPartitionsResponseNextCursor(topic_name=name, partition_index=last)
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)
        first = 0
    return DescribeTopicPartitionsResponse(topics=topics)


def _fault(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    operations = shown(TOPIC_OPERATIONS, True)
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_authorized_operations=operations)


async def _page(
    call: Call, name: str, topic: TopicState | None, numbers: range
) -> DescribeTopicPartitionsResponseTopic:
    if topic is None:
        return _fault(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        return await _described(call, name, topic, numbers)
    except UpstreamLost:
        return _fault(name, ErrorCode.LEADER_NOT_AVAILABLE)


async def _described(call: Call, name: str, topic: TopicState, numbers: range) -> DescribeTopicPartitionsResponseTopic:
    node, places = call.shared.node_id, await call.shared.enode.places(name)
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE if places[number].led else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=node if places[number].led else -1,
            leader_epoch=places[number].epoch,
            replica_nodes=(node,),
            isr_nodes=(node,),
            eligible_leader_replicas=(),
            last_known_elr=(),
        )
        for number in numbers
        if number < len(places)  # fewer where the topic was made anew in between
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=is_internal(name),
        partitions=partitions,
        topic_authorized_operations=shown(TOPIC_OPERATIONS, True),
    )


async def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Serve OffsetForLeaderEpoch: where the newest epoch that is not above the one asked for ends."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic, partitions=[await _epoch_end(call, topic.topic, part) for part in topic.partitions]
            )
            async for topic in call.pace.again(request.topics, 0.5)
        ]
    )


async def _epoch_end(
    call: Call, topic: str, part: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    await call.pace.spend(1, 2)
    partition = Partition(topic, part.partition)
    try:
        claimed = part.current_leader_epoch
        epoch, end = await call.shared.enode.epoch_end(partition, part.leader_epoch, leader_epoch=claimed)
    except PenstockError as error:
        return OffsetForLeaderEpochResponsePartition(error_code=code_of(error), partition=part.partition)
    return OffsetForLeaderEpochResponsePartition(partition=part.partition, leader_epoch=epoch, end_offset=end)
