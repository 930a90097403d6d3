"""Members, commits and their answers, as several tests of groups need them."""

import asyncio
from typing import Any

from msgspec.structs import replace

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.consumer_protocol import Subscription, write_subscription
from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsRequest
from penstock.protocols.kafka.wire.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tests.unit.kafka_front.kit import Client, Kit

METADATA = write_subscription(Subscription(topics=("t",)))
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
)


async def join(client: Client, version: int = 9, **given: Any) -> Any:
    """Both steps of a join, where the version has two."""
    request = replace(JOIN, **given)
    answer = await client.ask(request, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await client.ask(replace(request, member_id=answer.member_id), version)
    return answer


async def member(client: Client, version: int = 9, **given: Any) -> Any:
    """A group of one at work; the answer to its join."""
    joined = await join(client, version, **given)
    assert joined.error_code == 0
    sync = SyncGroupRequest(
        group_id=joined_group(given),
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=given.get("group_instance_id"),
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
    )
    synced = await client.ask(sync, 5)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"mine")
    return joined


def joined_group(given: dict[str, Any]) -> str:
    group: str = given.get("group_id", "g")
    return group


def committing(offset: int, *, topic: str = "t", partition: int = 0, **given: Any) -> OffsetCommitRequest:
    metadata = given.pop("metadata", "")
    part = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
    )
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[part])]
    return OffsetCommitRequest(**{"group_id": "g", "topics": topics, **given})


async def commit(client: Client, offset: int, *, version: int = 8, **given: Any) -> int:
    answer = await client.ask(committing(offset, **given), version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def committed(client: Client, group: str = "g", partition: int = 0) -> tuple[int, str, int]:
    topic = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[partition])
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])])
    found = (await client.ask(asked, 8)).groups[0].topics[0].partitions[0]
    assert found.error_code == 0
    return found.committed_offset, found.metadata, found.committed_leader_epoch


async def state(client: Client, group: str = "g", version: int = 5) -> Any:
    return (await client.ask(DescribeGroupsRequest(groups=[group]), version)).groups[0]


async def until(kit: Kit, name: str) -> None:
    """Return once the group is in that state."""
    async with asyncio.timeout(5):
        while (await state(kit)).group_state != name:
            await kit.runtime.sleep(0.001)
