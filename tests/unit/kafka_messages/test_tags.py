"""Tagged fields: what is not known is skipped, what has its default is not sent (KIP-482)."""

from __future__ import annotations

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.wire.codec import decode, encode
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestReplicaState
from penstock.protocols.kafka.wire.groups import HeartbeatResponse

BODY = b"\x00\x00\x00\x00" + b"\x00\x1b"
"""throttle_time_ms 0, error_code 27: a Heartbeat v4 answer without its tags."""

ANSWER = HeartbeatResponse(error_code=27)


@pytest.mark.parametrize(
    "tags", [b"\x00", b"\x01\x00\x00", b"\x02\x07\x03abc\x64\x01x", b"\x01\xff\xff\xff\xff\x0f\x00"]
)
def test_unknown_tags_are_skipped(tags: bytes) -> None:
    assert decode(HeartbeatResponse, 4, BODY + tags) == ANSWER


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (b"\x05\x00\x00", "5 tagged fields with 2 bytes left"),
        (b"\x02\x03\x00\x03\x00", "tagged field 3 after 3"),
        (b"\x02\x03\x00\x02\x00", "tagged field 2 after 3"),
        (b"\x01\x00\x09abc", "a length of 9 with 3 bytes left"),
        (b"", "the message ends within a value"),
    ],
)
def test_tags_that_lie_are_noticed(tags: bytes, said: str) -> None:
    with pytest.raises(ProtocolViolation, match=said):
        decode(HeartbeatResponse, 4, BODY + tags)


def test_a_known_tag_must_fill_its_size() -> None:
    wire = bytearray(b"".join(encode(FetchRequest(replica_state=FetchRequestReplicaState(replica_id=1)), 15)))
    size = wire.index(b"\x01\x0d") + 1  # tag 1, 13 bytes: replica_id, replica_epoch, no tags
    wire[size] = 14
    wire.insert(size + 14, 0)
    with pytest.raises(ProtocolViolation, match="left over"):
        decode(FetchRequest, 15, wire)


def test_a_tagged_field_with_its_default_is_not_sent() -> None:
    assert encode(FetchRequest(), 15) == encode(FetchRequest(replica_state=FetchRequestReplicaState()), 15)
    assert b"".join(encode(FetchRequest(), 15))[-1] == 0
