"""APIs about the cluster: brokers, partitions, leader epochs, quorum, replicas, log directories, quotas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from penstock.errors import PenstockError, UpstreamLost
from penstock.interfaces.enode import TopicState, extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.apis.metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, shown
from penstock.protocols.kafka.server.front import Call
from penstock.protocols.kafka.server.limits import is_internal
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.wire.cluster import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseReplica,
    DescribeQuorumResponseTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseNextCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocols.kafka.wire.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseResult,
)
from penstock.protocols.kafka.wire.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)

__all__ = [
    "alter_client_quotas",
    "alter_reassignments",
    "alter_replica_log_dirs",
    "describe_acls",
    "describe_client_quotas",
    "describe_cluster",
    "describe_log_dirs",
    "describe_quorum",
    "describe_scram_credentials",
    "describe_topic_partitions",
    "elect_leaders",
    "list_reassignments",
    "offset_for_leader_epoch",
]

# DescribeCluster, DescribeTopicPartitions, OffsetForLeaderEpoch.
#
# Source: Kafka protocol, DescribeCluster v0-v2 (KIP-700, KIP-1073: fenced brokers), DescribeTopicPartitions v0
# (KIP-966), OffsetForLeaderEpoch v0-v4 (KIP-320).

_BROKERS = 1
_MOST_PARTITIONS = 2_000


async def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Serve DescribeCluster: a cluster of one node, which is never fenced."""
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
    """Serve DescribeTopicPartitions: topics by name, up to the limit; the cursor continues the list."""
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
        return await _described_topic(call, name, topic, numbers)
    except UpstreamLost:
        return _fault(name, ErrorCode.LEADER_NOT_AVAILABLE)


async def _described_topic(
    call: Call, name: str, topic: TopicState, numbers: range
) -> DescribeTopicPartitionsResponseTopic:
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
        if number < len(places)  # fewer if the topic was recreated in between
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=is_internal(name),
        partitions=partitions,
        topic_authorized_operations=shown(TOPIC_OPERATIONS, True),
    )


async def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Serve OffsetForLeaderEpoch: the end of the newest epoch up to the requested one."""
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


# DescribeQuorum: this node alone is the quorum; it has no metadata log that others could follow.
#
# Source: Kafka protocol, DescribeQuorum v0-v2 (KIP-595, KIP-836, KIP-853).

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


# ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: each partition has one replica.
#
# No leader is ever elected and no replica moved. Each request is answered as by a broker that is alone in its cluster.
# Source: Kafka protocol, ElectLeaders v0-v2 (KIP-460), AlterPartitionReassignments v0-v1, ListPartitionReassignments v0
# (KIP-455).

_PREFERRED, _UNCLEAN = 0, 1
_Told = tuple[ErrorCode, str | None]


async def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Serve ElectLeaders: every partition has its leader."""
    if request.topic_partitions is None:
        # All partitions that need an election: none.
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
            outcome = await _elected(call, topic.topic, number)
            code, message = (
                outcome if known else (ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
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
    """Serve AlterPartitionReassignments: all partitions are already on this node, and there is no other."""
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
    """Serve ListPartitionReassignments: there are none."""
    del call, request
    return ListPartitionReassignmentsResponse(error_message=None)


# DescribeLogDirs and AlterReplicaLogDirs: the directories and sizes of logs. A node has one directory.
#
# Source: Kafka protocol, DescribeLogDirs v1-v5 (KIP-113, KIP-827), AlterReplicaLogDirs v1-v2.
async def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Serve DescribeLogDirs: all logs, or the requested ones that exist."""
    try:
        result = await _described_log_dir(call, request)
    except UpstreamLost as error:
        result = DescribeLogDirsResponseResult(error_code=code_of(error))
    return DescribeLogDirsResponse(results=[result])


async def _described_log_dir(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponseResult:
    enode = call.shared.enode
    wanted: dict[str, Sequence[int]]
    if request.topics is None:
        wanted = {topic.name: range(topic.partitions) for topic in await enode.topics()}
    else:
        wanted = {topic.topic: topic.partitions async for topic in call.pace.again(request.topics)}
    topics = [
        DescribeLogDirsResponseTopic(name=name, partitions=rows)
        for name, numbers in wanted.items()
        if (rows := [row async for row in _sizes(call, name, numbers)])
    ]
    room = await enode.room()
    return DescribeLogDirsResponseResult(
        log_dir=room.path, topics=topics, total_bytes=room.total_bytes, usable_bytes=room.usable_bytes
    )


async def _sizes(call: Call, topic: str, numbers: Sequence[int]) -> AsyncIterator[DescribeLogDirsResponsePartition]:
    enode = call.shared.enode
    await call.pace.spend(0, 1)
    found = await enode.topic(topic) if enode.abilities_of(topic).sizes else None
    for number in numbers:
        await call.pace.spend(1, 2)
        if found is not None and 0 <= number < found.partitions:
            size = await enode.size(Partition(topic, number))
            yield DescribeLogDirsResponsePartition(partition_index=number, partition_size=size)


async def alter_replica_log_dirs(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Serve AlterReplicaLogDirs: only the log's present directory is accepted, because there is no other."""
    here = await _here(call)
    topics: dict[str, list[AlterReplicaLogDirsResponsePartition]] = {}
    for folder in request.dirs:
        await call.pace.spend(0, 0.5)
        for topic in folder.topics:
            await call.pace.spend(0, 0.5)
            for number in topic.partitions:
                await call.pace.spend()
                code = here if isinstance(here, ErrorCode) else ErrorCode.LOG_DIR_NOT_FOUND
                if folder.path == here:
                    code = await _move(call, Partition(topic.name, number))
                row = AlterReplicaLogDirsResponsePartition(partition_index=number, error_code=code)
                topics.setdefault(topic.name, []).append(row)
    results = [AlterReplicaLogDirsResponseTopic(topic_name=name, partitions=rows) for name, rows in topics.items()]
    return AlterReplicaLogDirsResponse(results=results)


async def _here(call: Call) -> str | ErrorCode:
    """The directory of the logs."""
    try:
        return (await call.shared.enode.room()).path
    except UpstreamLost as error:
        return code_of(error)


async def _move(call: Call, partition: Partition) -> ErrorCode:
    try:
        await extent(call.shared.enode, partition)
    except PenstockError as error:
        return code_of(error)
    return ErrorCode.NONE


# DescribeClientQuotas, AlterClientQuotas, DescribeUserScramCredentials, DescribeAcls: a node has no quotas, users or
# ACLs.
#
# Source: Kafka protocol, DescribeClientQuotas and AlterClientQuotas v0-v1 (KIP-546), DescribeUserScramCredentials v0
# (KIP-554), DescribeAcls v1-v3.

_ENTITIES = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = range(3)


async def describe_client_quotas(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Serve DescribeClientQuotas: there are none."""
    try:
        for component in request.components:
            await call.pace.spend(1, 0.2)
            _check(component)
    except Refused as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(entries=[])


def _check(component: DescribeClientQuotasRequestComponent) -> None:
    if component.entity_type not in _ENTITIES:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
    if component.match_type not in (_EXACT, _DEFAULT, _ANY):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if component.match_type == _EXACT and component.match is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")


async def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Serve AlterClientQuotas by refusing: a quota must not be accepted if it has no effect."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntry(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message="This node keeps no quotas",
                entity=[
                    AlterClientQuotasResponseEntity(entity_type=each.entity_type, entity_name=each.entity_name)
                    async for each in call.pace.through(entry.entity, 0.5)
                ],
            )
            async for entry in call.pace.through(request.entries, 0.5)
        ]
    )


async def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Serve DescribeAcls: there are none, because clients are not authorized here.

    The response shows tools that copy ACLs between clusters, such as MirrorMaker, that there are none.
    """
    del call, request
    why = "No Authorizer is configured on the broker"
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=why)


async def describe_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Serve DescribeUserScramCredentials: there are none."""
    results = [
        DescribeUserScramCredentialsResponseResult(
            user=user.name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user.name}",
        )
        async for user in call.pace.through(request.users or (), 0.2)
    ]
    return DescribeUserScramCredentialsResponse(results=results)
