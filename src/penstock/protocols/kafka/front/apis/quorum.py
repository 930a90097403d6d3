"""DescribeQuorum: who keeps the cluster's metadata. This node does, alone, and in no log that others could follow.

Source: Kafka protocol, DescribeQuorum v0-v2 (KIP-595, KIP-836, KIP-853).
"""

from __future__ import annotations

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.messages.cluster import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseReplica,
    DescribeQuorumResponseTopic,
)

__all__ = ["describe_quorum"]

_METADATA = "__cluster_metadata"


async def describe_quorum(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Serve DescribeQuorum: one voter, which leads, in the epoch that counts this node's starts."""
    topics = [
        DescribeQuorumResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                _partition(call, topic.topic_name, part.partition_index)
                async for part in call.pace.through(topic.partitions, 0.3)
            ],
        )
        async for topic in call.pace.through(request.topics, 0.5)
    ]
    found = any(not part.error_code for topic in topics for part in topic.partitions)
    return DescribeQuorumResponse(topics=topics, nodes=[_node(call)] if found else [])


def _partition(call: Call, topic: str, number: int) -> DescribeQuorumResponsePartition:
    if (topic, number) != (_METADATA, 0):
        return DescribeQuorumResponsePartition(
            partition_index=number,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="This server does not host this topic-partition.",
        )
    shared = call.shared
    now_ms = shared.services.runtime.now_ms()
    voter = DescribeQuorumResponseReplica(
        replica_id=shared.node_id, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
    )
    epoch = shared.services.identity.epoch
    return DescribeQuorumResponsePartition(leader_id=shared.node_id, leader_epoch=epoch, current_voters=[voter])


def _node(call: Call) -> DescribeQuorumResponseNode:
    at = call.shared.advertised
    listener = DescribeQuorumResponseListener(name="PLAINTEXT", host=at.host, port=at.port)
    return DescribeQuorumResponseNode(node_id=call.shared.node_id, listeners=[listener])
