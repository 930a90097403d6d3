"""OffsetCommit and OffsetDelete; OffsetFetch is in `offset_fetch`.

Source: Kafka protocol, OffsetCommit v2-v10, OffsetDelete v0; KIP-848 (topic ids in OffsetCommit v10).
A commit's own retention time (v2-v4) stands with its offsets, whatever the node's option says (`expiry`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.errors import PenstockError
from penstock.model import Committed, Partition
from penstock.protocols.kafka.coordinator import CommitIdentity
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.front.fetch_sessions import Key
from penstock.protocols.kafka.front.limits import no_room
from penstock.protocols.kafka.front.reading import partitions_of
from penstock.protocols.kafka.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocols.kafka.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.seams.offsets import CommittedUntil
from penstock.seams.shares import NoRoom

__all__ = ["commit", "delete"]

_GROUP_NOT_FOUND_SINCE = 9
_EPOCHS_SINCE = 9
_IDS_SINCE = 10
_AS_OTHERS = -1
_STEPS, _STEPS_TO_COMMIT = 1, 2
_LUMP = 500
"""Offsets that are written together: all that a request of so many brings are committed, or none."""
_LAST_MS = 2**63 - 1


async def commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Serve OffsetCommit: durable before it is answered."""
    rows: dict[Key, OffsetCommitRequestPartition] = {}
    for topic in request.topics:
        await call.pace.spend(len(topic.partitions), len(topic.partitions) * _STEPS)
        rows.update((_key(call, topic, part), part) for part in topic.partitions)
    found = await partitions_of(call.shared, rows, ErrorCode.COORDINATOR_NOT_AVAILABLE, call.pace)
    named = [(each.topic, each.id) for each in found.values() if isinstance(each, Partition)]
    code = _may_commit(call, request, named)
    now_ms = call.shared.services.runtime.now_ms()
    faults: dict[Key, ErrorCode] = {}
    offsets: dict[Partition, Committed] = {}
    for key, part in rows.items():
        await call.pace.spend(0, _STEPS)
        place = found[key]
        faults[key] = fault = await _place_fault(call, place) or _commit_fault(call, part, code)
        if not fault and isinstance(place, Partition):
            offsets[place] = _committed(part, now_ms, request.retention_time_ms)
    for lump in _lumps(offsets):
        if refused := await _commit(call, request, lump):
            # What is committed stays so; what is left would be refused as well.
            faults.update((key, faults[key] or refused) for key in rows if found[key] in offsets)
            break
        for partition in lump:
            del offsets[partition]
        await call.pace.spend(0, len(lump) * _STEPS_TO_COMMIT if offsets else 0)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=faults[_key(call, topic, part)]
                    )
                    async for part in call.pace.again(topic.partitions)
                ],
            )
            async for topic in call.pace.again(request.topics, 0.5)
        ]
    )


def _lumps(offsets: Mapping[Partition, Committed]) -> list[dict[Partition, Committed]]:
    rows = list(offsets.items())
    return [dict(rows[at : at + _LUMP]) for at in range(0, len(rows), _LUMP)]


def _committed(part: OffsetCommitRequestPartition, now_ms: int, retention_ms: int) -> Committed:
    offset, metadata, epoch = part.committed_offset, part.committed_metadata or "", part.committed_leader_epoch
    if retention_ms == _AS_OTHERS:
        return Committed(offset, metadata, epoch, now_ms)
    # A real broker's sum wraps: what is to be kept for ever it forgets at once.
    return CommittedUntil(offset, metadata, epoch, now_ms, expires_ms=min(now_ms + retention_ms, _LAST_MS))


def _key(call: Call, topic: OffsetCommitRequestTopic, part: OffsetCommitRequestPartition) -> Key:
    return topic.topic_id if call.version >= _IDS_SINCE else topic.name, part.partition_index


async def _place_fault(call: Call, place: Partition | ErrorCode) -> ErrorCode:
    if isinstance(place, ErrorCode):
        return place
    return await call.shared.fault_of(place, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def _commit(call: Call, request: OffsetCommitRequest, offsets: Mapping[Partition, Committed]) -> ErrorCode:
    try:
        await call.shared.offsets.commit(
            request.group_id, offsets, lambda: _look(call, request, offsets), call.line.address.host
        )
    except Refused as refused:
        return refused.code
    except NoRoom as error:
        return no_room(error)
    except PenstockError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def _may_commit(call: Call, request: OffsetCommitRequest, partitions: Collection[tuple[str, int]]) -> ErrorCode:
    identity = CommitIdentity(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        call.line.address.host,
    )
    code = call.shared.groups.may_commit(identity, partitions, knows_epochs=call.version >= _EPOCHS_SINCE)
    if code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < _GROUP_NOT_FOUND_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def _look(call: Call, request: OffsetCommitRequest, offsets: Mapping[Partition, Committed]) -> None:
    if code := _may_commit(call, request, [(each.topic, each.id) for each in offsets]):
        raise Refused(code)


def _commit_fault(call: Call, part: OffsetCommitRequestPartition, group_fault: ErrorCode) -> ErrorCode:
    if group_fault:
        return group_fault
    if len(part.committed_metadata or "") > call.shared.options.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


async def delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Serve OffsetDelete: not for topics that members of the group still read."""
    group = request.group_id
    if not group:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    asked = [
        Partition(topic.name, part.partition_index)
        async for topic in call.pace.again(request.topics, 0.5)
        async for part in call.pace.through(topic.partitions, 2 * _STEPS)
    ]
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
    return OffsetDeleteResponse(topics=await _deleted(call, request, faults))


def _delete_fault(call: Call, group: str, topic: str, fault: ErrorCode) -> ErrorCode:
    if not fault and call.shared.groups.is_subscribed(group, topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return fault


async def _deleted(
    call: Call, request: OffsetDeleteRequest, faults: Mapping[Partition, ErrorCode]
) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=part.partition_index,
                    error_code=faults[Partition(topic.name, part.partition_index)],
                )
                async for part in call.pace.again(topic.partitions)
            ],
        )
        async for topic in call.pace.again(request.topics, 0.5)
    ]
