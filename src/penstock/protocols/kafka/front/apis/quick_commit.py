"""OffsetCommit of a group's member, where nothing is wrong: the checks and the answer of `offsets.commit`, and no more.

What is in any way unusual (a topic that is not there, metadata that is too large, a refusal) is left to that, which
alone says what is wrong. Source: Kafka protocol, OffsetCommit v5-v10; KIP-848 (topic ids in v10).
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from penstock.errors import PenstockError, ProtocolViolation
from penstock.model import Committed, Partition
from penstock.protocols.kafka.coordinator import CommitIdentity
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.apis.quick import framed, read_head, text, text_or_none, unchanging
from penstock.protocols.kafka.front.call import Line, Shared
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.messages.commits import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.seams.framing import Pieces
from penstock.wire import Reader

__all__ = ["commit"]

_FIRST, _FLEXIBLE, _LAST = 5, 8, 10
_EPOCHS_SINCE: Final = 6
_INSTANCE_SINCE: Final = 7
_MEMBER_EPOCHS_SINCE: Final = 9
_IDS_SINCE: Final = 10
_ID_BYTES: Final = 16
_MOST: Final = 100
"""Topics, and partitions of each: their answers are kept."""
_KEPT: Final = 1_024


class _Part(NamedTuple):
    number: int
    offset: int
    epoch: int
    metadata: str | None


class _Asked(NamedTuple):
    """``topics`` by name, or from v10 on by id."""

    version: int
    correlation: int
    identity: CommitIdentity
    topics: list[tuple[str | bytes, list[_Part]]]


async def commit(shared: Shared, line: Line, body: memoryview) -> Pieces | None:
    """The answer, or None for a request that `offsets.commit` has to look at; nothing is committed then."""
    if not shared.enode.near:
        return None  # a commit whose answer was lost on the way there must not be made again
    try:
        asked = _read(body, line.address.host)
    except ProtocolViolation:
        return None
    offsets = None if asked is None else await _offsets(shared, asked)
    if asked is None or not offsets:
        return None
    places = [(each.topic, each.id) for each in offsets]

    def look() -> None:
        knows = asked.version >= _MEMBER_EPOCHS_SINCE
        if code := shared.groups.may_commit(asked.identity, places, knows_epochs=knows):
            raise Refused(code)

    try:
        await shared.offsets.commit(asked.identity.group, offsets, look, asked.identity.host)
    except PenstockError:
        return None  # where the log has refused it, it does so again
    shape = tuple([(topic, tuple([part.number for part in parts])) for topic, parts in asked.topics])
    return (framed(_answer(asked.version, shape), asked.correlation),)


async def _offsets(shared: Shared, asked: _Asked) -> dict[Partition, Committed] | None:
    """What is to be committed; None where something is wrong with any of it."""
    enode, longest = shared.enode, shared.options.offset_metadata_max_bytes
    now_ms = shared.services.runtime.now_ms()
    offsets: dict[Partition, Committed] = {}
    try:
        for place, parts in asked.topics:
            topic = await (enode.topic(place) if isinstance(place, str) else enode.topic_by_id(place))
            for number, offset, epoch, metadata in parts:
                if topic is None or not 0 <= number < topic.partitions or len(metadata or "") > longest:
                    return None
                offsets[Partition(topic.name, number)] = Committed(offset, metadata or "", epoch, now_ms)
    except PenstockError:
        return None
    return offsets


def _read(body: memoryview, host: str) -> _Asked | None:
    """What is asked. Raises ProtocolViolation."""
    reader = Reader(body)
    head = read_head(reader, _FLEXIBLE)
    if head is None or not _FIRST <= head.version <= _LAST:
        return None
    version, correlation = head
    compact = version >= _FLEXIBLE
    group, generation, member = text(reader, compact), reader.i32(), text(reader, compact)
    instance = text_or_none(reader, compact) if version >= _INSTANCE_SINCE else None
    count = reader.uvarint() - 1 if compact else reader.i32()
    if not group or not 0 < count <= _MOST:
        return None
    topics = []
    for _ in range(count):
        topic = bytes(reader.take(_ID_BYTES)) if version >= _IDS_SINCE else text(reader, compact)
        parts = _read_parts(reader, version)
        if parts is None:
            return None
        topics.append((topic, parts))
    return _Asked(version, correlation, CommitIdentity(group, generation, member, instance, host), topics)


def _read_parts(reader: Reader, version: int) -> list[_Part] | None:
    compact = version >= _FLEXIBLE
    count = reader.uvarint() - 1 if compact else reader.i32()
    if not 0 < count <= _MOST:
        return None
    parts = []
    for _ in range(count):
        number, offset = reader.i32(), reader.i64()
        epoch = reader.i32() if version >= _EPOCHS_SINCE else -1
        parts.append(_Part(number, offset, epoch, text_or_none(reader, compact)))
        if compact and reader.uvarint():
            return None
    return None if compact and reader.uvarint() else parts


@functools.lru_cache(_KEPT)
def _answer(version: int, topics: tuple[tuple[str | bytes, tuple[int, ...]], ...]) -> bytes:
    made = [
        OffsetCommitResponseTopic(
            name=topic if isinstance(topic, str) else "",
            topic_id=topic if isinstance(topic, bytes) else bytes(_ID_BYTES),
            partitions=[
                OffsetCommitResponsePartition(partition_index=number, error_code=ErrorCode.NONE) for number in numbers
            ],
        )
        for topic, numbers in topics
    ]
    return unchanging(OffsetCommitResponse(topics=made), version)
