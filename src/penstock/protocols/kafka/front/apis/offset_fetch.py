"""OffsetFetch: of one group by topic, of many, by topic names or by topic ids.

Source: Kafka protocol, OffsetFetch v1-v10; KIP-447 (offsets that are undecided), KIP-709 (many groups at once), KIP-848
(topic ids in v10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.errors import UpstreamLost
from penstock.model import Committed, Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.reading import partitions_of
from penstock.protocols.kafka.messages.commits import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from penstock.protocols.kafka.messages.declare import NO_UUID

__all__ = ["fetch"]

_MANY_GROUPS_SINCE = 8
_EPOCHS_SINCE = 9
_IDS_SINCE = 10
_NONE = Committed(-1)
_Wanted = Sequence[tuple[str | bytes, Sequence[int]]]
"""Topics, by name or by id, and partitions of them."""


class _Row(NamedTuple):
    """Of one partition: what is committed, or -1 with the reason."""

    number: int
    committed: Committed
    code: ErrorCode


_Found = Callable[[str | bytes, int], _Row]
"""Gives the row of a partition by its topic's name or id."""


async def fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Serve OffsetFetch: -1 without an error where nothing was committed."""
    if call.version >= _MANY_GROUPS_SINCE:
        stable = request.require_stable
        return OffsetFetchResponse(groups=[await _group(call, group, stable=stable) for group in request.groups])
    wanted = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
    topics, find = await _found(call, request.group_id, wanted, stable=request.require_stable)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=str(topic),
                partitions=[_partition(find(topic, number)) async for number in call.pace.through(numbers)],
            )
            async for topic, numbers in call.pace.again(topics, 0.5)
        ]
    )


def _partition(row: _Row) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=row.number,
        committed_offset=row.committed.offset,
        committed_leader_epoch=row.committed.leader_epoch,
        metadata=row.committed.metadata,
        error_code=row.code,
    )


def _partition_of_group(row: _Row) -> OffsetFetchResponseGroupTopicPartition:
    return OffsetFetchResponseGroupTopicPartition(
        partition_index=row.number,
        committed_offset=row.committed.offset,
        committed_leader_epoch=row.committed.leader_epoch,
        metadata=row.committed.metadata,
        error_code=row.code,
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
        topics, find = await _found(call, group.group_id, wanted, stable=stable)
        if by_id and wanted is None:
            topics, find = await _with_ids(call, topics, find)
    except UpstreamLost:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseGroupTopic(
                name="" if isinstance(topic, bytes) else topic,
                topic_id=topic if isinstance(topic, bytes) else NO_UUID,
                partitions=[_partition_of_group(find(topic, number)) async for number in call.pace.through(numbers)],
            )
            async for topic, numbers in call.pace.again(topics, 0.5)
        ],
    )


async def _found(call: Call, group: str, wanted: _Wanted | None, *, stable: bool) -> tuple[_Wanted, _Found]:
    """The topics that were asked for, and what finds their rows; all that the group has where ``wanted`` is None.

    Raises UpstreamLost where nobody can tell now. ``stable``: where an open transaction wants to commit an offset, the
    answer is to ask again later (KIP-447).
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
    # As they are now: others commit while this goes on.
    asked = [each for each in named.values() if isinstance(each, Partition)]
    undecided = {each for each in asked if each in undecided}
    committed = {each: committed[each] for each in asked if each in committed}

    def find(topic: str | bytes, number: int) -> _Row:
        partition = named[topic, number]
        if isinstance(partition, ErrorCode):
            return _Row(number, _NONE, partition)
        if stable and partition in undecided:
            return _Row(number, _NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _Row(number, committed.get(partition, _NONE), ErrorCode.NONE)

    return wanted, find


def _by_topic(partitions: Iterable[Partition]) -> _Wanted:
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.id)
    return list(found.items())


async def _with_ids(call: Call, topics: _Wanted, find: _Found) -> tuple[_Wanted, _Found]:
    """By topic ids; without topics that are not there any more, which have none. Raises UpstreamLost."""
    named = {topic.id: (name, rows) for name, rows in topics if (topic := await call.shared.enode.topic(str(name)))}
    return [(each, rows) for each, (_, rows) in named.items()], lambda topic, number: find(named[topic][0], number)
