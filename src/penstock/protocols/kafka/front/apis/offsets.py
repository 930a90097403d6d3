"""OffsetCommit, OffsetFetch, OffsetDelete.

Source: Kafka protocol, OffsetCommit v2-v9, OffsetFetch v1-v9, OffsetDelete v0; KIP-709 (many groups at once).
A commit's own retention time (v2-v4) is not kept: all offsets live as long as the node's option says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import PenstockError
from penstock.model import Committed, Partition
from penstock.protocols.kafka.coordinator import CommitIdentity
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from penstock.protocols.kafka.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

__all__ = ["commit", "delete", "fetch"]

_GROUP_NOT_FOUND_SINCE = 9
_MANY_GROUPS_SINCE = 8
_NONE = Committed(-1)


async def commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Serve OffsetCommit: durable before it is answered."""
    asked = [Partition(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    known = {each: await call.shared.fault_of(each, ErrorCode.COORDINATOR_NOT_AVAILABLE) for each in asked}
    # And once more at the last moment, so that no rebalance comes between this and the commit.
    code = _may_commit(call, request)
    now_ms = call.shared.services.runtime.now_ms()
    offsets: dict[Partition, Committed] = {}
    faults: dict[Partition, ErrorCode] = {}
    for topic in request.topics:
        for part in topic.partitions:
            partition = Partition(topic.name, part.partition_index)
            fault = known[partition] or _commit_fault(call, part, code)
            if fault:
                faults[partition] = fault
            else:
                metadata = part.committed_metadata or ""
                offsets[partition] = Committed(part.committed_offset, metadata, part.committed_leader_epoch, now_ms)
    if offsets:
        try:
            await call.shared.offsets.commit(request.group_id, offsets, lambda: _look(call, request))
        except Refused as refused:
            faults.update(dict.fromkeys(offsets, refused.code))
        except PenstockError:
            faults.update(dict.fromkeys(offsets, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=faults.get(Partition(topic.name, part.partition_index), ErrorCode.NONE),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _may_commit(call: Call, request: OffsetCommitRequest) -> ErrorCode:
    groups = call.shared.groups
    identity = CommitIdentity(
        request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    )
    code = groups.coordinator.may_commit(identity, groups.now())
    groups.wake()
    if code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < _GROUP_NOT_FOUND_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def _look(call: Call, request: OffsetCommitRequest) -> None:
    if code := _may_commit(call, request):
        raise Refused(code)


def _commit_fault(call: Call, part: OffsetCommitRequestPartition, group_fault: ErrorCode) -> ErrorCode:
    if group_fault:
        return group_fault
    if len(part.committed_metadata or "") > call.shared.options.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


# OffsetFetch.


async def fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Serve OffsetFetch: -1 without an error where nothing was committed."""
    if call.version >= _MANY_GROUPS_SINCE:
        return OffsetFetchResponse(
            groups=[
                await _group(
                    call,
                    group.group_id,
                    None if group.topics is None else _asked(group.topics),
                    stable=request.require_stable,
                )
                for group in request.groups
            ]
        )
    wanted = None if request.topics is None else _asked(request.topics)
    found = await _found(call, request.group_id, wanted, stable=request.require_stable)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                        error_code=code,
                    )
                    for number, (one, code) in parts.items()
                ],
            )
            for topic, parts in found.items()
        ]
    )


def _asked(topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestGroupTopic]) -> list[Partition]:
    return [Partition(topic.name, number) for topic in topics for number in topic.partition_indexes]


async def _found(
    call: Call, group: str, wanted: Sequence[Partition] | None, *, stable: bool
) -> dict[str, dict[int, tuple[Committed, ErrorCode]]]:
    """By topic and partition; everything the group has where ``wanted`` is None.

    ``stable``: where an open transaction wants to commit an offset, the answer is to ask again later (KIP-447).
    """
    committed, undecided = await call.shared.offsets.standing(group)
    found: dict[str, dict[int, tuple[Committed, ErrorCode]]] = {}
    for partition in committed if wanted is None else wanted:
        one = (committed.get(partition, _NONE), ErrorCode.NONE)
        if stable and partition in undecided:
            one = (_NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        found.setdefault(partition.topic, {})[partition.id] = one
    return found


async def _group(
    call: Call, group: str, wanted: Sequence[Partition] | None, *, stable: bool
) -> OffsetFetchResponseGroup:
    topics = [
        OffsetFetchResponseGroupTopic(
            name=topic,
            partitions=[
                OffsetFetchResponseGroupTopicPartition(
                    partition_index=number,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    error_code=code,
                )
                for number, (one, code) in parts.items()
            ],
        )
        for topic, parts in (await _found(call, group, wanted, stable=stable)).items()
    ]
    return OffsetFetchResponseGroup(group_id=group, topics=topics)


# OffsetDelete.


async def delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Serve OffsetDelete: not for topics that members of the group still read."""
    group = request.group_id
    asked = [Partition(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    known = {each: await call.shared.fault_of(each, ErrorCode.COORDINATOR_NOT_AVAILABLE) for each in asked}
    if ErrorCode.COORDINATOR_NOT_AVAILABLE in known.values():
        return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    has_offsets = bool(await call.shared.offsets.committed(group))
    faults: dict[Partition, ErrorCode] = {}

    def look() -> None:
        # At the last moment: no member joins and reads them in between.
        if code := call.shared.groups.may_delete_offsets(group, has_offsets=has_offsets):
            raise Refused(code)
        faults.update((each, _delete_fault(call, group, each.topic, fault)) for each, fault in known.items())

    try:
        await call.shared.offsets.forget(group, lambda each, _: faults.get(each) is ErrorCode.NONE, look)
    except Refused as refused:
        return OffsetDeleteResponse(error_code=refused.code)
    except PenstockError:
        return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return OffsetDeleteResponse(topics=_deleted(request, faults))


def _delete_fault(call: Call, group: str, topic: str, fault: ErrorCode) -> ErrorCode:
    if call.shared.groups.coordinator.is_subscribed(group, topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return fault


def _deleted(request: OffsetDeleteRequest, faults: Mapping[Partition, ErrorCode]) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=part.partition_index,
                    error_code=faults[Partition(topic.name, part.partition_index)],
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
