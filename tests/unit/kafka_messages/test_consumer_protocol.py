"""What members tell each other: every version is read, newer ones as the highest known, and nonsense is noticed."""

from __future__ import annotations

import pytest
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.framing import read_request
from penstock.protocols.kafka.wire.groups import JoinGroupRequest, SyncGroupRequest
from tests.vectors.kafka_frames.recorded import Recorded, files, recorded

FULL = Subscription(
    topics=("a", "b"),
    user_data=b"user",
    owned_partitions=(TopicPartitions(topic="a", partitions=(0, 2)),),
    generation_id=7,
    rack_id="r",
)


@pytest.mark.parametrize(
    ("version", "lost"),
    [
        (0, {"owned_partitions": (), "generation_id": -1, "rack_id": None}),
        (1, {"generation_id": -1, "rack_id": None}),
        (2, {"rack_id": None}),
        (3, {}),
    ],
)
def test_a_version_says_what_it_can(version: int, lost: dict[str, object]) -> None:
    wire = write_subscription(FULL, version)
    assert wire[:2] == version.to_bytes(2, "big")
    read = read_subscription(wire)
    for name in Subscription.__slots__:
        assert getattr(read, name) == lost.get(name, getattr(FULL, name)), name


def test_a_newer_version_is_read_as_the_highest_known() -> None:
    newer = b"\x00\x09" + write_subscription(FULL)[2:] + b"what nobody knows yet"
    assert read_subscription(newer) == read_subscription(write_subscription(FULL))
    assignment = MemberAssignment(assigned_partitions=(TopicPartitions(topic="a", partitions=(1,)),))
    assert read_assignment(b"\x7f\xff" + write_assignment(assignment)[2:] + b"more") == assignment


def test_kio_reads_the_same() -> None:
    theirs, size = entity_reader(ConsumerProtocolSubscription)(write_subscription(FULL)[2:], 0)
    assert size == len(write_subscription(FULL)) - 2
    assert (theirs.topics, theirs.user_data, theirs.generation_id, theirs.rack_id) == (("a", "b"), b"user", 7, "r")
    assert [(each.topic, each.partitions) for each in theirs.owned_partitions] == [("a", (0, 2))]
    assignment = MemberAssignment(assigned_partitions=[TopicPartitions(topic="a", partitions=[1, 4])], user_data=b"x")
    given, _ = entity_reader(ConsumerProtocolAssignment)(write_assignment(assignment)[2:], 0)
    assert [(each.topic, each.partitions) for each in given.assigned_partitions] == [("a", (1, 4))]
    assert given.user_data == b"x"


@pytest.mark.parametrize("wire", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09", b"\x00\x03" + b"\xff" * 8])
def test_nonsense_is_noticed(wire: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        read_subscription(wire)
    with pytest.raises(ProtocolViolation):
        read_assignment(wire)


def requests(kind: type) -> list[tuple[Recorded, object]]:
    found = [
        (frame, read_request(frame.body)[1])
        for name in files()
        for frame in recorded(name)
        if frame.is_request and frame.api_key in (11, 14)
    ]
    return [(frame, message) for frame, message in found if isinstance(message, kind)]


def test_recorded_subscriptions_come_back_byte_for_byte() -> None:
    seen = set()
    for frame, message in requests(JoinGroupRequest):
        assert isinstance(message, JoinGroupRequest)
        for protocol in message.protocols:
            version = int.from_bytes(protocol.metadata[:2], "big")
            assert write_subscription(read_subscription(protocol.metadata), version) == protocol.metadata, frame.where
            seen.add(version)
    assert seen == {0, 3}


def test_recorded_assignments_come_back_byte_for_byte() -> None:
    count = 0
    for frame, message in requests(SyncGroupRequest):
        assert isinstance(message, SyncGroupRequest)
        for each in message.assignments:
            version = int.from_bytes(each.assignment[:2], "big")
            assert write_assignment(read_assignment(each.assignment), version) == each.assignment, frame.where
            count += 1
    assert count > 20
