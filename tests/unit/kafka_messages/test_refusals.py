"""What a version cannot say is refused before anything is sent, and the field is named."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.wire.codec import decode, encode
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import versions
from penstock.protocols.kafka.wire.groups import HeartbeatRequest, HeartbeatResponse
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from penstock.protocols.kafka.wire.topics import CreateTopicsRequest, CreateTopicsRequestTopic


def fetch(**partition: Any) -> FetchRequest:
    return FetchRequest(topics=[FetchRequestTopic(topic="t", partitions=[FetchRequestPartition(**partition)])])


@pytest.mark.parametrize(
    ("message", "version", "said"),
    [
        (HeartbeatRequest(group_id="x" * 40_000), 3, "HeartbeatRequest.group_id cannot be written in version 3"),
        (HeartbeatRequest(group_id="\ud800"), 4, "HeartbeatRequest.group_id cannot be written"),
        (HeartbeatRequest(group_id=None), 4, "HeartbeatRequest.group_id cannot be written"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=2**31), 4, "HeartbeatRequest.generation_id cannot be written"),
        (HeartbeatRequest(generation_id=1.5), 4, "HeartbeatRequest.generation_id"),  # type: ignore[arg-type]
        (fetch(fetch_offset=2**63), 12, r"FetchRequest.topics\[0\].partitions\[0\].fetch_offset cannot be written"),
        (FetchRequest(topics=[FetchRequestTopic(topic=None)]), 12, r"FetchRequest.topics\[0\].topic cannot"),  # type: ignore[arg-type]
        (FetchRequest(topics=[None]), 12, r"FetchRequest.topics\[0\].topic cannot"),  # type: ignore[list-item]
        (FetchRequest(topics=7), 12, r"FetchRequest.topics cannot"),  # type: ignore[arg-type]
        (FetchRequest(topics=[FetchRequestTopic(topic_id=b"short")]), 13, r"topics\[0\].topic_id cannot .* 16 bytes"),
        (MetadataRequest(topics=None), 0, "MetadataRequest.topics cannot be written in version 0"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, r"MetadataRequest.topics\[0\].name cannot"),
        (FindCoordinatorRequest(coordinator_keys=["a", None]), 4, r"coordinator_keys\[1\] cannot"),  # type: ignore[list-item]
        (
            ProduceRequest(
                topic_data=[ProduceRequestTopic(partition_data=[ProduceRequestPartition(records="text")])]  # type: ignore[arg-type]
            ),
            9,
            r"ProduceRequest.topic_data\[0\].partition_data\[0\].records cannot",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_path(message: object, version: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        encode(message, version)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (HeartbeatRequest(group_instance_id="i"), 2, "HeartbeatRequest.group_instance_id"),
        (FindCoordinatorRequest(key="g"), 4, "FindCoordinatorRequest.key"),
        (FindCoordinatorRequest(coordinator_keys=["g"]), 3, "FindCoordinatorRequest.coordinator_keys"),
        (MetadataRequest(topics=(), allow_auto_topic_creation=False), 3, "MetadataRequest.allow_auto_topic_creation"),
        (CreateTopicsRequest(validate_only=True), 0, "CreateTopicsRequest.validate_only"),
        (fetch(last_fetched_epoch=3), 11, "FetchRequestPartition.last_fetched_epoch"),
    ],
)
def test_a_value_that_a_version_has_no_place_for_is_refused(message: object, version: int, field: str) -> None:
    with pytest.raises(UsageError, match=f"{field} does not exist in version {version}"):
        encode(message, version)


def test_extras_are_left_out_where_a_version_has_no_place_for_them() -> None:
    answer = HeartbeatResponse(throttle_time_ms=5, error_code=27)
    assert b"".join(encode(answer, 0)) == b"\x00\x1b"
    assert decode(HeartbeatResponse, 0, b"\x00\x1b") == HeartbeatResponse(error_code=27)


def test_an_empty_list_says_no_more_than_an_empty_tuple() -> None:
    assert b"".join(encode(FindCoordinatorRequest(key="g", coordinator_keys=[]), 0)) == b"\x00\x01g"


@pytest.mark.parametrize("version", [-1, 5, 99])
def test_a_version_that_is_not_declared_is_refused(version: int) -> None:
    assert versions(12) == (0, 4)
    with pytest.raises(UsageError, match=f"HeartbeatRequest has versions 0 to 4, not {version}"):
        encode(HeartbeatRequest(), version)
    with pytest.raises(UsageError, match=f"HeartbeatRequest has versions 0 to 4, not {version}"):
        decode(HeartbeatRequest, version, b"")


@pytest.mark.parametrize(
    ("message", "version", "wire", "said"),
    [
        (HeartbeatRequest, 0, b"\xff\xff", "HeartbeatRequest v0: .*HeartbeatRequest.group_id is null"),
        (HeartbeatRequest, 0, b"\xff\xfe", "HeartbeatRequest.group_id has a length of -2"),
        (HeartbeatRequest, 4, b"\x00", "HeartbeatRequest.group_id is null"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "MetadataRequest.topics is null"),
        (MetadataRequest, 1, b"\x7f\xff\xff\xff", "MetadataRequest.topics has 2147483647 elements with 0 bytes left"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f", "MetadataRequest.topics has 4294967294 elements"),
        (CreateTopicsRequest, 4, b"\x00\x00\x00\x02" + bytes(19), "CreateTopicsRequest.topics has 2 elements"),
    ],
)
def test_a_peer_that_lies_is_told_with_the_field(message: type, version: int, wire: bytes, said: str) -> None:
    with pytest.raises(ProtocolViolation, match=said):
        decode(message, version, wire)


def test_the_smallest_topic_is_not_taken_for_a_lie() -> None:
    topics = [CreateTopicsRequestTopic(), CreateTopicsRequestTopic()]
    wire = b"".join(encode(CreateTopicsRequest(topics=topics), 4))
    assert len(decode(CreateTopicsRequest, 4, wire).topics) == 2
