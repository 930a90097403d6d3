"""A fetch that is read from its bytes is the one that its declaration reads, whatever the bytes are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.interfaces.enode import FetchPart
from penstock.model import Partition
from penstock.protocols.kafka.server.apis import fetch
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
)
from penstock.protocols.kafka.wire.framing import read_request, request

I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=4)
PARTS = st.builds(
    FetchRequestPartition, partition=I32, current_leader_epoch=I32, fetch_offset=I64, partition_max_bytes=I32
)
MOSTLY_ONE = st.sampled_from([1, 1, 1, 0, 2])
REQUESTS = st.builds(
    FetchRequest,
    replica_id=I32,
    max_wait_ms=I32,
    min_bytes=I32,
    max_bytes=I32,
    isolation_level=st.integers(-128, 127),
    session_id=st.sampled_from([0, 0, 0, 7]),
    session_epoch=st.sampled_from([-1, -1, -1, 0, 7]),
    topics=MOSTLY_ONE.flatmap(
        lambda topics: st.lists(
            st.builds(
                FetchRequestTopic,
                topic=TEXT,
                partitions=MOSTLY_ONE.flatmap(lambda parts: st.lists(PARTS, min_size=parts, max_size=parts)),
            ),
            min_size=topics,
            max_size=topics,
        )
    ),
    forgotten_topics_data=st.sampled_from([[], [], [], [FetchRequestForgottenTopic(topic="t", partitions=[1])]]),
    rack_id=TEXT,
)


def body_of(message: FetchRequest, version: int, client: str | None) -> bytes:
    return b"".join(request(message, version, client)(0x01020304))[4:]


def same(body: bytes) -> bool:
    """Whether it was read; then all is as the declaration has it."""
    quick = fetch._read(memoryview(body))
    if quick is None:
        return False
    header, message = read_request(body)
    assert isinstance(message, FetchRequest)
    ((topic,), (part,)) = message.topics, message.topics[0].partitions
    assert (header.api_version, header.correlation_id) == (quick.version, quick.correlation)
    assert (message.session_id, message.session_epoch, tuple(message.forgotten_topics_data)) == (0, -1, ())
    assert (message.max_wait_ms, message.min_bytes, message.max_bytes) == quick[2:5]
    assert topic.topic == quick.name.decode()
    place = Partition(topic.topic, part.partition)
    stable, epoch = bool(message.isolation_level), part.current_leader_epoch
    assert quick.part == FetchPart(place, part.fetch_offset, part.partition_max_bytes, stable, epoch)
    return True


@given(REQUESTS, st.integers(7, 11), st.none() | TEXT)
def test_what_is_read_is_the_same(message: FetchRequest, version: int, client: str | None) -> None:
    one = len(message.topics) == 1 and len(message.topics[0].partitions) == 1
    plain = one and not message.session_id and message.session_epoch == -1 and not message.forgotten_topics_data
    assert same(body_of(message, version, client)) == bool(plain and message.topics[0].topic)


@given(REQUESTS, st.integers(7, 11), st.data())
def test_bytes_that_were_hurt_are_left_or_read_the_same(
    message: FetchRequest, version: int, data: st.DataObject
) -> None:
    body = bytearray(body_of(message, version, "me"))
    for at in data.draw(st.lists(st.integers(2, len(body) - 1), max_size=3)):
        body[at] = data.draw(st.integers(0, 255))
    same(bytes(body))
    same(bytes(body[: data.draw(st.integers(0, len(body)))]))
