"""ListOffsets: the ends of a log, and offsets by time.

No log is tiered, so nothing waits for remote storage: the timeout of v10 (KIP-1075) is never used up.
Source: Kafka protocol, ListOffsets v1-v11; KIP-734 (max timestamp), KIP-405 (earliest local, latest tiered), KIP-1023
(earliest pending upload).
"""

from __future__ import annotations

from collections import Counter

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.leaders import check_leader_epoch
from penstock.protocols.kafka.messages.discovery import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from penstock.seams.enode import Extent, extent

__all__ = ["list_offsets"]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NOTHING = (-1, -1)
_STEPS, _STEPS_BY_TIME = 2, 1_000
"""A lookup by time reads, and may inflate, a batch."""


async def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Serve ListOffsets."""
    asked = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics = []
    for topic in request.topics:
        await call.pace.spend(0, 0.5)
        answers = []
        for part in topic.partitions:
            twice = asked[topic.name, part.partition_index] > 1
            reads = not twice and (part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP)
            await call.pace.spend(1, _STEPS_BY_TIME if reads else _STEPS)
            answers.append(await _answer(call, topic.name, part, twice, committed=bool(request.isolation_level)))
        topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


async def _answer(
    call: Call, topic: str, part: ListOffsetsRequestPartition, twice: bool, *, committed: bool
) -> ListOffsetsResponsePartition:
    partition = Partition(topic, part.partition_index)
    try:
        if twice:
            raise Refused(ErrorCode.INVALID_REQUEST)
        here = await extent(call.shared.enode, partition)
        abilities = call.shared.enode.abilities_of(topic)
        if abilities.epochs:
            check_leader_epoch(here.epoch, part.current_leader_epoch)
        if not abilities.times and (part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP):
            # As of logs without timestamps; clients take it for "there is none".
            raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        offset, timestamp = await _find(call, partition, here, part.timestamp, committed=committed)
    except PenstockError as error:
        return ListOffsetsResponsePartition(partition_index=partition.id, error_code=code_of(error))
    return ListOffsetsResponsePartition(
        partition_index=partition.id,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=here.epoch if offset >= 0 and abilities.epochs else -1,
    )


async def _find(call: Call, partition: Partition, here: Extent, timestamp: int, *, committed: bool) -> tuple[int, int]:
    """(offset, timestamp); both -1 where there is none. Readers of committed records end at the last stable offset."""
    enode = call.shared.enode
    start, end = here.start, here.stable if committed else here.end
    if timestamp >= 0:
        return _below(end, await enode.offset_for_time(partition, timestamp))
    if timestamp == LATEST:
        return end, -1
    if timestamp == EARLIEST:
        return start, -1
    if call.version < _SINCE.get(timestamp, call.version + 1):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == MAX_TIMESTAMP:
        return _below(end, await enode.max_timestamp(partition))
    return (start, -1) if timestamp == EARLIEST_LOCAL else _NOTHING


def _below(end: int, found: tuple[int, int] | None) -> tuple[int, int]:
    return found if found is not None and found[0] < end else _NOTHING
