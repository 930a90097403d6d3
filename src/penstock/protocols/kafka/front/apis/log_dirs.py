"""DescribeLogDirs and AlterReplicaLogDirs: where logs lie and how large they are. A node has one directory.

Source: Kafka protocol, DescribeLogDirs v1-v5 (KIP-113, KIP-827), AlterReplicaLogDirs v1-v2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from penstock.errors import PenstockError, UpstreamLost
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import code_of
from penstock.protocols.kafka.messages.replicas import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
)
from penstock.seams.enode import extent

__all__ = ["alter_replica_log_dirs", "describe_log_dirs"]


async def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Serve DescribeLogDirs: all logs, or those asked for that are here."""
    try:
        result = await _described(call, request)
    except UpstreamLost as error:
        result = DescribeLogDirsResponseResult(error_code=code_of(error))
    return DescribeLogDirsResponse(results=[result])


async def _described(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponseResult:
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
    """Serve AlterReplicaLogDirs: a log may go where it is, for there is nowhere else."""
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
    """The one directory."""
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
