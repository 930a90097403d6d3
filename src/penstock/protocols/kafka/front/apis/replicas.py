"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: replicas, of which each partition has one.

Nothing is ever elected or moved, and each request is told so in the words of a broker whose cluster is itself.
Source: Kafka protocol, ElectLeaders v0-v2 (KIP-460), AlterPartitionReassignments v0-v1, ListPartitionReassignments
v0 (KIP-455).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import UpstreamLost
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import code_of
from penstock.protocols.kafka.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

__all__ = ["alter_reassignments", "elect_leaders", "list_reassignments"]

_PREFERRED, _UNCLEAN = 0, 1
_Told = tuple[ErrorCode, str | None]


async def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Serve ElectLeaders: every partition has its leader."""
    if request.topic_partitions is None:
        # All partitions that need it: none.
        topics = [
            ElectLeadersResponseTopic(topic=topic.name)
            async for topic in call.pace.through(await call.shared.all_topics())
        ]
        return ElectLeadersResponse(replica_election_results=topics)
    known = request.election_type in (_PREFERRED, _UNCLEAN)
    results = []
    for topic in request.topic_partitions:
        await call.pace.spend(0, 0.5)
        rows = []
        for number in topic.partitions:
            told = await _elected(call, topic.topic, number)
            code, message = (
                told if known else (ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
            )
            rows.append(ElectLeadersResponsePartition(partition_id=number, error_code=code, error_message=message))
        results.append(ElectLeadersResponseTopic(topic=topic.topic, partition_result=rows))
    code = ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


async def _elected(call: Call, name: str, number: int) -> _Told:
    await call.pace.spend()
    try:
        topic = await call.shared.enode.topic(name)
    except UpstreamLost as error:
        return code_of(error), error.message
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if not 0 <= number < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"
    return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."


async def alter_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Serve AlterPartitionReassignments: to this node everything has been moved already, and there is no other."""
    topics = []
    for topic in request.topics:
        await call.pace.spend(0, 0.5)
        rows = []
        for part in topic.partitions:
            code, message = await _moved(call, topic.name, part.partition_index, part.replicas)
            rows.append(
                AlterPartitionReassignmentsResponsePartition(
                    partition_index=part.partition_index, error_code=code, error_message=message
                )
            )
        topics.append(AlterPartitionReassignmentsResponseTopic(name=topic.name, partitions=rows))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=topics
    )


async def _moved(call: Call, name: str, number: int, replicas: Sequence[int] | None) -> _Told:
    await call.pace.spend()
    try:
        topic = await call.shared.enode.topic(name)
    except UpstreamLost as error:
        return code_of(error), error.message
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    if not 0 <= number < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}."
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    trouble = _misplaced(replicas, call.shared.node_id)
    return (ErrorCode.INVALID_REPLICA_ASSIGNMENT, trouble) if trouble else (ErrorCode.NONE, None)


def _misplaced(replicas: Sequence[int], here: int) -> str:
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    for place, broker in enumerate(replicas):
        if broker != here:
            return f"The manual partition assignment includes broker {broker}, but no such broker is registered."
        if place:
            return f"The manual partition assignment includes the broker {broker} more than once."
    return ""


async def list_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Serve ListPartitionReassignments: nothing is on its way."""
    del call, request
    return ListPartitionReassignmentsResponse(error_message=None)
