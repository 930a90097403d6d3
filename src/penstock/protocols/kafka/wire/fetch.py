"""Fetch and OffsetForLeaderEpoch messages, and a fast path that packs and unpacks common Fetch messages by layout.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias

from penstock.interfaces import Buffer
from penstock.interfaces.framing import Buffers
from penstock.protocols.kafka.wire.declarations import (
    I8,
    I16,
    I32,
    I64,
    NO_UUID,
    RECORDS,
    STR,
    UUID,
    Api,
    Message,
    array,
    struct_field,
)
from penstock.protocols.kafka.wire.framing import request

__all__ = ["FIRST_PLAIN", "Part", "Plain", "RequestForm", "read_plain"]


# Fetch, and OffsetForLeaderEpoch, which finds the offset where two logs diverge.
class FetchRequestReplicaState(Message):
    """The ``replica_state`` struct."""

    replica_id: Annotated[int, I32] = -1
    replica_epoch: Annotated[int, I64] = -1


class FetchRequestPartition(Message):
    """One entry of ``partitions``."""

    partition: Annotated[int, I32] = 0
    current_leader_epoch: Annotated[int, I32.since(9).ignorable()] = -1
    fetch_offset: Annotated[int, I64] = 0
    last_fetched_epoch: Annotated[int, I32.since(12)] = -1
    log_start_offset: Annotated[int, I64.since(5).ignorable()] = -1
    partition_max_bytes: Annotated[int, I32] = 0
    replica_directory_id: Annotated[bytes, UUID.tag(0).since(17).ignorable()] = NO_UUID
    high_watermark: Annotated[int, I64.tag(1).since(18).ignorable()] = 9223372036854775807


class FetchRequestTopic(Message):
    """One entry of ``topics``."""

    topic: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[FetchRequestPartition], array(FetchRequestPartition)] = ()


class FetchRequestForgottenTopic(Message):
    """One entry of ``forgotten_topics_data``."""

    topic: Annotated[str, STR.between(7, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[int], array(I32)] = ()


class FetchRequest(Message):
    """Fetch request, versions 0-18."""

    API: ClassVar[Api] = Api(1, 0, 18, flexible=12)
    cluster_id: Annotated[str | None, STR.nullable().tag(0).since(12).ignorable()] = None
    replica_id: Annotated[int, I32.between(0, 14)] = -1
    replica_state: Annotated[FetchRequestReplicaState, struct_field(FetchRequestReplicaState).tag(1).since(15)] = (
        FetchRequestReplicaState()
    )
    max_wait_ms: Annotated[int, I32] = 0
    min_bytes: Annotated[int, I32] = 0
    max_bytes: Annotated[int, I32.since(3).ignorable()] = 2147483647
    isolation_level: Annotated[int, I8.since(4).ignorable()] = 0
    session_id: Annotated[int, I32.since(7).ignorable()] = 0
    session_epoch: Annotated[int, I32.since(7).ignorable()] = -1
    topics: Annotated[Sequence[FetchRequestTopic], array(FetchRequestTopic)] = ()
    forgotten_topics_data: Annotated[
        Sequence[FetchRequestForgottenTopic], array(FetchRequestForgottenTopic).since(7)
    ] = ()
    rack_id: Annotated[str, STR.since(11).ignorable()] = ""


class FetchResponseDivergingEpoch(Message):
    """The ``diverging_epoch`` struct."""

    epoch: Annotated[int, I32] = -1
    end_offset: Annotated[int, I64] = -1


class FetchResponseCurrentLeader(Message):
    """The ``current_leader`` struct."""

    leader_id: Annotated[int, I32] = -1
    leader_epoch: Annotated[int, I32] = -1


class FetchResponseSnapshotId(Message):
    """The ``snapshot_id`` struct."""

    end_offset: Annotated[int, I64] = -1
    epoch: Annotated[int, I32] = -1


class FetchResponseAbortedTransaction(Message):
    """One entry of ``aborted_transactions``."""

    producer_id: Annotated[int, I64] = 0
    first_offset: Annotated[int, I64] = 0


class FetchResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    high_watermark: Annotated[int, I64] = 0
    last_stable_offset: Annotated[int, I64.since(4).ignorable()] = -1
    log_start_offset: Annotated[int, I64.since(5).ignorable()] = -1
    diverging_epoch: Annotated[
        FetchResponseDivergingEpoch, struct_field(FetchResponseDivergingEpoch).tag(0).since(12)
    ] = FetchResponseDivergingEpoch()
    current_leader: Annotated[
        FetchResponseCurrentLeader, struct_field(FetchResponseCurrentLeader).tag(1).since(12).ignorable()
    ] = FetchResponseCurrentLeader()
    snapshot_id: Annotated[FetchResponseSnapshotId, struct_field(FetchResponseSnapshotId).tag(2).since(12)] = (
        FetchResponseSnapshotId()
    )
    aborted_transactions: Annotated[
        Sequence[FetchResponseAbortedTransaction] | None,
        array(FetchResponseAbortedTransaction).nullable().since(4).ignorable(),
    ] = ()
    preferred_read_replica: Annotated[int, I32.since(11)] = -1
    records: Annotated[Buffer | None, RECORDS.nullable()] = b""


class FetchResponseTopic(Message):
    """One entry of ``responses``."""

    topic: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partitions: Annotated[Sequence[FetchResponsePartition], array(FetchResponsePartition)] = ()


class FetchResponseNodeEndpoint(Message):
    """One entry of ``node_endpoints``."""

    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None


class FetchResponse(Message):
    """Fetch response, versions 0-18."""

    API: ClassVar[Api] = Api(1, 0, 18, flexible=12)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16.since(7).ignorable()] = 0
    session_id: Annotated[int, I32.since(7)] = 0
    responses: Annotated[Sequence[FetchResponseTopic], array(FetchResponseTopic)] = ()
    node_endpoints: Annotated[
        Sequence[FetchResponseNodeEndpoint], array(FetchResponseNodeEndpoint).tag(0).since(16).ignorable()
    ] = ()


class OffsetForLeaderEpochRequestPartition(Message):
    """One entry of ``partitions``."""

    partition: Annotated[int, I32] = 0
    current_leader_epoch: Annotated[int, I32.since(2).ignorable()] = -1
    leader_epoch: Annotated[int, I32] = 0


class OffsetForLeaderEpochRequestTopic(Message):
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[OffsetForLeaderEpochRequestPartition], array(OffsetForLeaderEpochRequestPartition)
    ] = ()


class OffsetForLeaderEpochRequest(Message):
    """OffsetForLeaderEpoch request, versions 0-4."""

    API: ClassVar[Api] = Api(23, 0, 4, flexible=4)
    replica_id: Annotated[int, I32.since(3).ignorable()] = -2
    topics: Annotated[Sequence[OffsetForLeaderEpochRequestTopic], array(OffsetForLeaderEpochRequestTopic)] = ()


class OffsetForLeaderEpochResponsePartition(Message):
    """One entry of ``partitions``."""

    error_code: Annotated[int, I16] = 0
    partition: Annotated[int, I32] = 0
    leader_epoch: Annotated[int, I32.since(1).ignorable()] = -1
    end_offset: Annotated[int, I64] = -1


class OffsetForLeaderEpochResponseTopic(Message):
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[
        Sequence[OffsetForLeaderEpochResponsePartition], array(OffsetForLeaderEpochResponsePartition)
    ] = ()


class OffsetForLeaderEpochResponse(Message):
    """OffsetForLeaderEpoch response, versions 0-4."""

    API: ClassVar[Api] = Api(23, 0, 4, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[OffsetForLeaderEpochResponseTopic], array(OffsetForLeaderEpochResponseTopic)] = ()


# The fast path for Fetch: requests that differ only in a few numbers, and responses without anything unusual.
#
# A waiting reader repeats nearly the same request, and most responses hold only new records and end offsets of a few
# partitions. The codec needs about a hundred calls for either message, which dominates the cost of a single record.
# The codec still decodes all other responses: those with errors, tagged fields, aborted transactions, preferred read
# replicas or wrong lengths.
#
# Source: Kafka protocol guide, Fetch v12-v18.

FIRST_PLAIN: Final = 12
"""The first version with this layout: it is flexible and has the last fetched epoch."""

_Key: TypeAlias = tuple[str | bytes, int]
Plain: TypeAlias = "tuple[int, Mapping[_Key, Part]]"
"""A response without an error: session id and partitions. A key has a topic id or a name, depending on the version."""

_Place: TypeAlias = tuple[int, int, int, int]
"""Fetch offset, current leader epoch, last fetched epoch, maximum bytes."""

_FIRST_WITH_IDS: Final = 13
_FIRST_WITHOUT_REPLICA: Final = 15
_ID_BYTES: Final = 16
_ONE_BYTE: Final = 128
_TWO_BYTES: Final = 1 << 14
_LONGEST_SHIFT: Final = 28
_NO_REPLICA: Final = -1
_MOST_PARTS: Final = 1 << 16
_FETCH: Final = FetchRequest.API.key

_BEGIN: Final = struct.Struct(">ihhi")
"""A frame's size, API key, version, correlation id."""

_EPOCH: Final = struct.Struct(">i")
_FIXED_BEFORE_EPOCH: Final = 4 + 4 + 4 + 1 + 4
"""Maximum wait, minimum and maximum bytes, isolation level, session id."""

_PLACE: Final = struct.Struct(">iiqiqiB")
"""Partition, leader epoch, fetch offset, last fetched epoch, log start offset (followers only), maximum bytes, tags."""

_ANSWER: Final = struct.Struct(">iBihiB")
"""Correlation id, header tags, throttle time, error code, session id, number of topics plus one."""

_PART: Final = struct.Struct(">ihqqqBi")
"""Partition, error code, high watermark, last stable offset, log start offset, preferred read replica.

Before the replica comes the number of aborted transactions plus one (0: null, 1: none).
"""


_ALONE: Final = struct.Struct(">iBihiB16sBihqqqBi")
"""The start of a response with one partition: `_ANSWER`, topic id, number of partitions plus one, `_PART`."""

_NO_TAGS: Final = b"\0\0\0"
"""The empty tag sections at the end of a partition, of its topic and of the response."""

_MORE: Final = len(_NO_TAGS) + 1
"""If at least this many bytes follow the records, the response does not end there."""

_SHORT: Final = tuple(bytes((count + 1,)) for count in range(_ONE_BYTE - 1))


class Part(NamedTuple):
    """One partition of a response: the fields of `FetchResponsePartition` that are not at their defaults."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: Sequence[FetchResponseAbortedTransaction] | None
    records: memoryview | None


class RequestForm:
    """Packs fetch requests that differ only in session epoch and partitions.

    ``shown`` is the request with no partitions. The codec encodes it once.
    """

    __slots__ = ("_before", "_end", "_middle", "_rest", "_topic", "version")

    def __init__(self, shown: FetchRequest, version: int, client_id: str | None) -> None:
        whole = b"".join(bytes(piece) for piece in request(shown, version, client_id)(0))
        name = 0 if client_id is None else len(client_id.encode())
        replica = 0 if version >= _FIRST_WITHOUT_REPLICA else 4
        epoch_at = _BEGIN.size + 2 + name + 1 + replica + _FIXED_BEFORE_EPOCH
        self.version = version
        self._middle = whole[_BEGIN.size : epoch_at]
        self._end = whole[epoch_at + _EPOCH.size + 1 :]  # skips the count of topics: one byte, as there are none
        self._topic: str | bytes | None = None
        self._before = self._rest = b""

    def framed(self, epoch: int, named: Mapping[_Key, _Place], correlation: int) -> Buffers:
        """The framed request with this session epoch and these partitions."""
        if len(named) == 1:
            for (topic, number), (offset, leader_epoch, last_epoch, most) in named.items():
                if topic != self._topic:
                    self._remember(topic)
                place = _PLACE.pack(number, leader_epoch, offset, last_epoch, -1, most, 0)
                body = self._middle + _EPOCH.pack(epoch) + self._before + place + self._rest
        else:
            body = b"".join((self._middle, _EPOCH.pack(epoch), _topics(named) if named else b"\x01", self._end))
        return (_BEGIN.pack(_BEGIN.size - 4 + len(body), _FETCH, self.version, correlation) + body,)

    def _remember(self, topic: str | bytes) -> None:
        """Cache the bytes before and after the partition of a request with a single partition."""
        self._before, _, behind = _topics({(topic, 0): (0, 0, 0, 0)}).partition(_PLACE.pack(0, 0, 0, 0, -1, 0, 0))
        self._rest = behind + self._end
        self._topic = topic


def _topics(named: Mapping[_Key, _Place]) -> bytes:
    found: dict[str | bytes, list[bytes]] = {}
    for (topic, number), (offset, leader_epoch, last_epoch, most) in named.items():
        packed = _PLACE.pack(number, leader_epoch, offset, last_epoch, -1, most, 0)
        found.setdefault(topic, []).append(packed)
    pieces = [_length(len(found))]
    for topic, places in found.items():
        if isinstance(topic, str):
            name = topic.encode()
            pieces += (_length(len(name)), name)
        else:
            pieces.append(topic)
        pieces += (_length(len(places)), *places, b"\x00")
    return b"".join(pieces)


def _length(count: int) -> bytes:
    """Encode a compact length: ``count`` plus one, as an unsigned varint."""
    if count < _ONE_BYTE - 1:
        return _SHORT[count]
    count += 1
    found = bytearray()
    while count >= _ONE_BYTE:
        found.append(count & 127 | _ONE_BYTE)
        count >>= 7
    found.append(count)
    return bytes(found)


def read_plain(body: memoryview, version: int) -> Plain | None:
    """Decode a plain response. None if only the codec can decode it; the codec also reports anything wrong with it."""
    if version >= _FIRST_WITH_IDS and (only := _of_one(body)) is not None:
        return only
    parts: dict[_Key, Part] = {}
    try:
        _, tags, _, error_code, session_id, topics = _ANSWER.unpack_from(body)
        if tags or error_code or not topics:
            return None
        at = _ANSWER.size
        if topics >= _ONE_BYTE:
            topics, at = _uvarint(body, at - 1)
        for _ in range(topics - 1):
            at = _topic(body, at, version, parts)
            if not at:
                return None
        return None if body[at] else (session_id, parts)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _of_one(body: memoryview) -> Plain | None:
    """Decode a response with one partition and a records length of one or two bytes; None for any other response."""
    size = len(body)
    at = _ALONE.size
    if size < at + 1 + len(_NO_TAGS):
        return None
    _, tags, _, error, session_id, topics, topic, partitions, number, code, high, stable, begin, aborted, replica = (
        _ALONE.unpack_from(body)
    )
    if topics != 2 or partitions != 2 or tags or error or code or aborted > 1 or replica != _NO_REPLICA:
        return None
    length = body[at]
    at += 1
    if length >= _ONE_BYTE:
        length += (body[at] << 7) - _ONE_BYTE
        at += 1
    end = at + length - 1 if length else at
    if length >= _TWO_BYTES or bytes(body[end : end + _MORE]) != _NO_TAGS:
        return None
    records = body[at:end] if length else None
    return session_id, {(topic, number): Part(high, stable, begin, () if aborted else None, records)}


def _topic(body: memoryview, at: int, version: int, parts: dict[_Key, Part]) -> int:
    """Add a topic's partitions to ``parts``. Returns the position after the topic, or 0 if it is not plain."""
    if version >= _FIRST_WITH_IDS:
        topic: str | bytes = bytes(body[at : at + _ID_BYTES])
        at += _ID_BYTES
    else:
        size, at = _uvarint(body, at)
        topic = str(body[at : at + size - 1], "utf-8")
        at += size - 1
    count, at = (body[at], at + 1) if body[at] < _ONE_BYTE else _uvarint(body, at)
    for _ in range(count - 1):
        number, code, high, stable, begin, aborted, replica = _PART.unpack_from(body, at)
        size, at = _uvarint(body, at + _PART.size)
        end = at + size - 1 if size else at
        if code or aborted > 1 or replica != _NO_REPLICA or body[end] or len(parts) >= _MOST_PARTS:
            return 0  # (a length beyond the end raises IndexError at body[end])
        parts[topic, number] = Part(high, stable, begin, () if aborted else None, body[at:end] if size else None)
        at = end + 1
    return 0 if body[at] or not count else at + 1


def _uvarint(body: memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned varint at ``at`` (at most five bytes) and the position after it. Raises IndexError."""
    byte = body[at]
    if byte < _ONE_BYTE:
        return byte, at + 1
    value = shift = 0
    while byte >= _ONE_BYTE:
        if shift == _LONGEST_SHIFT:
            raise IndexError(at)
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        byte = body[at]
    return value | byte << shift, at + 1
