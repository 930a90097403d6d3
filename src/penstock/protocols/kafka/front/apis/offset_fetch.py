"""OffsetFetch: of one group by topic, of many, by topic names or by topic ids.

Source: Kafka protocol, OffsetFetch v1-v10; KIP-447 (offsets that are undecided), KIP-709 (many groups at once), KIP-848
(topic ids in v10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

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

__all__ = ["fetch"]

_Part = TypeVar("_Part", OffsetFetchResponsePartition, OffsetFetchResponseGroupTopicPartition)
"""A partition's row in an answer about one group, or about many; both have the same fields."""

_MANY_GROUPS_SINCE = 8
_EPOCHS_SINCE = 9
_IDS_SINCE = 10
_NONE = Committed(-1)
_UNDECIDED = Committed(-1)
"""An open transaction wants to commit an offset there."""
_Wanted = Sequence[tuple[str | bytes, Sequence[int]]]
"""Topics, by name or by id, and partitions of them."""


_Found = list[tuple[str | bytes, list[_Part]]]
"""Topics as they were asked for, by name or by id, one that was named twice twice; with the rows of their answer."""


async def fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Serve OffsetFetch: -1 without an error where nothing was committed."""
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
    """What is committed of the topics that were asked for; of all that the group has where ``wanted`` is None.

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
    """By topic ids; without topics that are not there any more, which have none. Raises UpstreamLost."""
    return [(topic.id, rows) for name, rows in found if (topic := await call.shared.enode.topic(str(name)))]
