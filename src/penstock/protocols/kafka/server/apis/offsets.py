"""OffsetCommit, OffsetDelete and OffsetFetch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from penstock.concurrency.limits import NoRoom
from penstock.errors import PenstockError, UpstreamLost
from penstock.interfaces.node import CommittedUntil
from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import CommitIdentity
from penstock.protocols.kafka.server.apis.fetch import partitions_of
from penstock.protocols.kafka.server.fetch_sessions import Key
from penstock.protocols.kafka.server.front import Call
from penstock.protocols.kafka.server.limits import no_room
from penstock.protocols.kafka.server.refusals import Refused
from penstock.protocols.kafka.wire.coordinator_admin import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

__all__ = ["commit", "delete", "fetch"]

# OffsetCommit and OffsetDelete.
#
# Source: Kafka protocol, OffsetCommit v2-v10, OffsetDelete v0; KIP-848 (topic ids in OffsetCommit v10). A commit's own
# retention time (v2-v4) is stored with its offsets, and overrides the node's option (`group_service`).

_GROUP_NOT_FOUND_SINCE = 9
_KNOWS_EPOCHS_SINCE = 9
_IDS_SINCE = 10
_AS_OTHERS = -1
_STEPS, _STEPS_TO_COMMIT = 2, 2
_LUMP = 500
"""Offsets that are written in one batch: up to this number a request's offsets are all committed, or none is."""
_LAST_MS = 2**63 - 1


async def commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Serve OffsetCommit: durable before the response."""
    pace, by_id = call.pace, call.version >= _IDS_SINCE
    longest = call.shared.options.offset_metadata_max_bytes
    now_ms = call.shared.services.runtime.now_ms()
    places: dict[Key, Partition] = {}
    faults: dict[Key, ErrorCode] = {}
    offsets: dict[Partition, Committed] = {}
    for topic in request.topics:
        named = topic.topic_id if by_id else topic.name
        name, count, fault = await _topic(call, topic)
        for part in topic.partitions:
            if pace.used(1, _STEPS):
                await pace.rest()
            key = (named, part.partition_index)
            faults[key] = fault
            if name is None:
                continue
            place = places[key] = Partition(name, part.partition_index)
            if fault or not 0 <= part.partition_index < count:
                faults[key] = fault or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif part.committed_metadata and len(part.committed_metadata) > longest:
                faults[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                offsets.pop(place, None)
            else:
                offsets[place] = _committed(part, now_ms, request.retention_time_ms)
    if not 0 < len(offsets) == len(faults) <= _LUMP:
        # Else `_commit` asks, because all offsets are committed at once. The group's code precedes that for metadata.
        code = _may_commit(call, request, [(each.topic, each.id) for each in places.values()])
        if code:
            offsets.clear()
            faults.update(
                (key, code) for key in places if not faults[key] or faults[key] is ErrorCode.OFFSET_METADATA_TOO_LARGE
            )
    for lump in _lumps(offsets):
        if refused := await _commit(call, request, lump):
            # Batches that are committed stay so; the rest would be refused as well.
            faults.update((key, refused) for key, place in places.items() if not faults[key] and place in offsets)
            break
        if len(lump) < len(offsets):
            for partition in lump:
                del offsets[partition]
            await pace.spend(0, len(lump) * _STEPS_TO_COMMIT)
    topics = []
    for topic in request.topics:
        await pace.spend(0, 0.5 + len(topic.partitions) / 5)
        named = topic.topic_id if by_id else topic.name
        parts = [
            OffsetCommitResponsePartition(
                partition_index=part.partition_index, error_code=faults[named, part.partition_index]
            )
            for part in topic.partitions
        ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts))
    return OffsetCommitResponse(topics=topics)


async def _topic(call: Call, asked: OffsetCommitRequestTopic) -> tuple[str | None, int, ErrorCode]:
    """A topic's name if it is known, its number of partitions, and the code that all of them get."""
    enode = call.shared.services.enode
    name = asked.name if call.version < _IDS_SINCE else None
    try:
        topic = await (enode.topic_by_id(asked.topic_id) if name is None else enode.topic(name))
    except UpstreamLost:
        return name, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE
    if topic is None:
        return name, 0, ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return topic.name, topic.partitions, ErrorCode.NONE


def _lumps(offsets: Mapping[Partition, Committed]) -> Iterator[Mapping[Partition, Committed]]:
    if len(offsets) <= _LUMP:
        yield from [offsets] if offsets else []
        return
    rows = list(offsets.items())
    for at in range(0, len(rows), _LUMP):
        yield dict(rows[at : at + _LUMP])


def _committed(part: OffsetCommitRequestPartition, now_ms: int, retention_ms: int) -> Committed:
    offset, metadata, epoch = part.committed_offset, part.committed_metadata or "", part.committed_leader_epoch
    if retention_ms == _AS_OTHERS:
        return Committed(offset, metadata, epoch, now_ms)
    # A real broker's sum overflows, so it would drop an offset that should be kept for ever.
    return CommittedUntil(offset, metadata, epoch, now_ms, expires_ms=min(now_ms + retention_ms, _LAST_MS))


async def _commit(call: Call, request: OffsetCommitRequest, offsets: Mapping[Partition, Committed]) -> ErrorCode:
    try:
        await call.shared.offsets.commit(
            request.group_id, offsets, lambda: _look(call, request, offsets), call.connection.address.host
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
        call.connection.address.host,
    )
    code = call.shared.groups.may_commit(identity, partitions, knows_epochs=call.version >= _KNOWS_EPOCHS_SINCE)
    if code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < _GROUP_NOT_FOUND_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def _look(call: Call, request: OffsetCommitRequest, offsets: Mapping[Partition, Committed]) -> None:
    if code := _may_commit(call, request, [(each.topic, each.id) for each in offsets]):
        raise Refused(code)


async def delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Serve OffsetDelete: refused for topics that members of the group still read."""
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
        # Checked at the last moment, so that no member can join in between.
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


# OffsetFetch: of one group or of many, by topic names or by topic ids.
#
# Source: Kafka protocol, OffsetFetch v1-v10; KIP-447 (unstable offsets), KIP-709 (many groups at once), KIP-848 (topic
# ids in v10).

_Part = TypeVar("_Part", OffsetFetchResponsePartition, OffsetFetchResponseGroupTopicPartition)
"""A partition's row in a response about one group, or about many; both have the same fields."""

_MANY_GROUPS_SINCE = 8
_EPOCHS_SINCE = 9

_NONE = Committed(-1)
_UNDECIDED = Committed(-1)
"""Stands for an offset that an open transaction is about to commit."""
_Wanted = Sequence[tuple[str | bytes, Sequence[int]]]
"""Topics, by name or by id, and partitions of them."""


_Found = list[tuple[str | bytes, list[_Part]]]
"""The requested topics, by name or by id, with repetitions, and the rows of their responses."""


async def fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Serve OffsetFetch: -1 without an error for partitions without a committed offset."""
    stable = request.require_stable
    if call.version >= _MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=[await _group(call, group, stable=stable) for group in request.groups])
    wanted = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
    found = await _found(call, request.group_id, wanted, OffsetFetchResponsePartition, stable=stable)
    return OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic(name=str(topic), partitions=rows) for topic, rows in found]
    )


async def _group(call: Call, group: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    await call.pace.spend(1, 3)
    by_id = call.version >= _IDS_SINCE
    wanted: _Wanted | None = None
    if group.topics is not None:
        wanted = [(each.topic_id if by_id else each.name, each.partition_indexes) for each in group.topics]
    newer = call.shared.groups.newer.coordinator
    if call.version >= _EPOCHS_SINCE and (
        fault := newer.fetch_fault(group.group_id, group.member_id, group.member_epoch)
    ):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=fault)
    try:
        found = await _found(call, group.group_id, wanted, OffsetFetchResponseGroupTopicPartition, stable=stable)
        if by_id and wanted is None:
            found = await _with_ids(call, found)
    except UpstreamLost:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseGroupTopic(topic_id=topic, partitions=rows)
            if isinstance(topic, bytes)
            else OffsetFetchResponseGroupTopic(name=topic, partitions=rows)
            for topic, rows in found
        ],
    )


async def _found(
    call: Call, group: str, wanted: _Wanted | None, shape: Callable[..., _Part], *, stable: bool
) -> _Found[_Part]:
    """The committed offsets of the wanted topics; all of the group's if ``wanted`` is None.

    Raises UpstreamLost if they cannot be determined now. ``stable``: for an offset that an open transaction is about to
    commit, the partition gets a retriable error instead (KIP-447).
    """
    lost = ErrorCode.COORDINATOR_NOT_AVAILABLE
    keys = ((topic, number) for topic, numbers in wanted or () for number in numbers)
    named = await partitions_of(call.shared, keys, lost, call.pace)
    if lost in named.values():
        raise UpstreamLost("what the topics are called cannot be asked now")
    committed, undecided = await call.shared.offsets.standing(group)
    if wanted is None:
        named = {(each.topic, each.id): each for each in committed}
        wanted = _by_topic(committed)
    # Read again now: other requests may have committed while this one yielded.
    offsets = {
        each: _UNDECIDED if stable and each in undecided else committed.get(each, _NONE)
        for each in named.values()
        if isinstance(each, Partition)
    }
    found = []
    for topic, numbers in wanted:
        rows = []
        for number in numbers:
            await call.pace.spend()
            partition = named[topic, number]
            if isinstance(partition, ErrorCode):
                offset, code = _NONE, partition
            else:
                offset = offsets[partition]
                code = ErrorCode.UNSTABLE_OFFSET_COMMIT if offset is _UNDECIDED else ErrorCode.NONE
            rows.append(
                shape(
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    error_code=code,
                )
            )
        await call.pace.spend(0, 0.5)
        found.append((topic, rows))
    return found


def _by_topic(partitions: Iterable[Partition]) -> _Wanted:
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.id)
    return list(found.items())


async def _with_ids(call: Call, found: _Found[_Part]) -> _Found[_Part]:
    """By topic ids; without deleted topics, which have none. Raises UpstreamLost."""
    return [(topic.id, rows) for name, rows in found if (topic := await call.shared.enode.topic(str(name)))]
