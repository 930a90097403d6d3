"""Small requests of Kafka and TubeMQ as bytes, in the versions of usual clients, and checks of their responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.protocols.kafka.wire import fetch, groups, metadata, offsets, produce
from penstock.protocols.kafka.wire.declarations import Message
from penstock.protocols.kafka.wire.framing import read_response, request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest, ApiVersionsResponse

__all__ = [
    "KAFKA",
    "OFFSET_MARK",
    "VALUE",
    "Asked",
    "fetch_at",
    "heartbeat",
    "join",
    "read_joined",
    "sync",
    "tubemq_send",
]

VALUE: Final = b"x" * 100
OFFSET_MARK: Final = 0x0123_4567_89AB_CDEF
"""An offset whose bytes occur nowhere else in a request."""

_CLIENT: Final = "bench"
_JOIN: Final = 3
"""The last version in which a member may join without a member id."""


class Asked(NamedTuple):
    """A request with its length prefix; ``trouble`` returns the error in a response's body, "" if there is none."""

    data: bytes
    trouble: Callable[[bytes], str]


def _asked(message: object, version: int, answer: type) -> Asked:
    data = b"".join(request(message, version, _CLIENT)(1))
    return Asked(data, lambda body: _error(read_response(answer, version, body)))


def _error(answer: object) -> str:
    """The first error code in a response, at any depth, that is not 0."""
    if isinstance(answer, Message):
        code = getattr(answer, "error_code", 0)
        if code:
            return f"{type(answer).__name__} with code {code}"
        return next(filter(None, (_error(getattr(answer, each)) for each in answer.__struct_fields__)), "")
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes | bytearray | memoryview):
        return next(filter(None, map(_error, answer)), "")
    return ""


def _produce(topic: str) -> Asked:
    from penstock.records.scalar_writer import FewRows, encode_few

    records = bytes(encode_few(FewRows([None], [VALUE], [time.time_ns() // 1_000_000])))
    part = produce.ProduceRequestPartition(index=0, records=records)
    topics = [produce.ProduceRequestTopic(name=topic, partition_data=[part])]
    message = produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
    return _asked(message, 10, produce.ProduceResponse)


def _fetch(topic: str) -> Asked:
    """Fetches the first record, which must exist."""
    return fetch_at(topic, 0, most=1)


def fetch_at(topic: str, offset: int, *, most: int = 1 << 20) -> Asked:
    """A fetch like librdkafka's: no session, a wait of half a second."""
    part = fetch.FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=most)
    message = fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fetch.FetchRequestTopic(topic=topic, partitions=[part])],
    )
    return _asked(message, 11, fetch.FetchResponse)


def _metadata(topic: str) -> Asked:
    topics = [metadata.MetadataRequestTopic(name=topic)]
    message = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return _asked(message, 12, metadata.MetadataResponse)


def _list_offsets(topic: str) -> Asked:
    """The end of its partition."""
    part = metadata.ListOffsetsRequestPartition(partition_index=0, timestamp=-1)
    topics = [metadata.ListOffsetsRequestTopic(name=topic, partitions=[part])]
    return _asked(metadata.ListOffsetsRequest(replica_id=-1, topics=topics), 7, metadata.ListOffsetsResponse)


def _offset_commit(topic: str) -> Asked:
    """A commit without a member id, for a group with the topic's name."""
    part = offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [offsets.OffsetCommitRequestTopic(name=topic, partitions=[part])]
    message = offsets.OffsetCommitRequest(group_id=topic, topics=topics)
    return _asked(message, 8, offsets.OffsetCommitResponse)


def _offset_fetch(topic: str) -> Asked:
    topics = [offsets.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    return _asked(offsets.OffsetFetchRequest(group_id=topic, topics=topics), 7, offsets.OffsetFetchResponse)


def _find_coordinator(topic: str) -> Asked:
    return _asked(offsets.FindCoordinatorRequest(coordinator_keys=[topic]), 4, offsets.FindCoordinatorResponse)


def _api_versions(topic: str) -> Asked:
    message = ApiVersionsRequest(client_software_name=_CLIENT, client_software_version="1")
    return _asked(message, 3, ApiVersionsResponse)


KAFKA: Mapping[str, Callable[[str], Asked]] = {
    "produce": _produce,
    "fetch": _fetch,
    "Metadata": _metadata,
    "ListOffsets": _list_offsets,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": _find_coordinator,
    "ApiVersions": _api_versions,
}
"""Requests by name; each function takes the topic, whose name is also the group's."""


def join(group: str) -> Asked:
    """JoinGroup of a new member."""
    message = groups.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        protocol_type="consumer",
        protocols=[groups.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return _asked(message, _JOIN, groups.JoinGroupResponse)


def read_joined(body: bytes) -> tuple[str, int]:
    """The member id and the generation in a JoinGroup response."""
    joined = read_response(groups.JoinGroupResponse, _JOIN, body)
    return joined.member_id, joined.generation_id


def sync(group: str, member: str, generation: int) -> Asked:
    """SyncGroup of a group's only member, with an empty assignment."""
    message = groups.SyncGroupRequest(group_id=group, member_id=member, generation_id=generation)
    return _asked(message, 3, groups.SyncGroupResponse)


def heartbeat(group: str, member: str, generation: int) -> Asked:
    """Heartbeat of a member."""
    message = groups.HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
    return _asked(message, 4, groups.HeartbeatResponse)


def tubemq_send(topic: str) -> Asked:
    """A TubeMQ request that sends one message."""
    from penstock.interfaces.framing import Frame
    from penstock.protocols.tubemq.wire import rpc
    from penstock.protocols.tubemq.wire.messages import SendMessageRequestP2B
    from penstock.protocols.tubemq.wire.records import checksum
    from penstock.protocols.tubemq.wire.rpc import METHODS

    message = SendMessageRequestP2B(
        client_id=_CLIENT,
        topic_name=topic,
        partition_id=0,
        data=VALUE,
        flag=0,
        check_sum=checksum(VALUE),
        sent_addr=0,
    )

    def trouble(body: bytes) -> str:
        answer = rpc.read_answer(METHODS[13], Frame(1, True, memoryview(body)))
        return "" if answer.success else f"a send with code {answer.err_code}: {answer.err_msg}"

    return Asked(b"".join(rpc.request(METHODS[13], message, timeout_ms=10_000)(1)), trouble)
