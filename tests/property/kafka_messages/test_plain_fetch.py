"""What is written and read by Fetch's layout is as the codec has it; what is not plain is left to it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.wire.fetch import (
    FIRST_PLAIN,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
    FetchResponsePartition,
    FetchResponseTopic,
    Plain,
    RequestForm,
    read_plain,
)
from penstock.protocols.kafka.wire.framing import read_response, request, response

VERSIONS = range(FIRST_PLAIN, FetchRequest.API.highest + 1)
FIRST_WITH_IDS = 13
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
PLACE = st.tuples(I64, I32, I32, I32)
NUMBERS = st.dictionaries(I32, PLACE, min_size=1, max_size=4)
NAMES = st.one_of(st.text(max_size=8), st.just("n" * 200))
IDS = st.binary(min_size=16, max_size=16)


def topics(version: int) -> st.SearchStrategy[str | bytes]:
    return IDS if version >= FIRST_WITH_IDS else NAMES


def called(topic: str | bytes) -> dict[str, str | bytes]:
    return {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_request_is_as_the_codec_writes_it(data: st.DataObject, version: int) -> None:
    named = data.draw(st.dictionaries(topics(version), NUMBERS, max_size=3))
    named |= data.draw(
        st.sampled_from(
            [{}, {b"m" * 16 if version >= FIRST_WITH_IDS else "m": dict.fromkeys(range(150), (1, 2, 3, 4))}]
        )
    )
    shown = FetchRequest(
        max_wait_ms=data.draw(I32), min_bytes=data.draw(I32), max_bytes=data.draw(I32), isolation_level=1,
        session_id=data.draw(I32), rack_id=data.draw(NAMES),
    )  # fmt: skip
    client_id = data.draw(st.sampled_from([None, "", "penstock", "ü" * 100]))
    correlation, epoch = data.draw(I32), data.draw(I32)
    parts = [
        FetchRequestTopic(
            **called(topic),  # type: ignore[arg-type]
            partitions=[
                FetchRequestPartition(
                    partition=number, fetch_offset=offset, current_leader_epoch=leader, last_fetched_epoch=last,
                    partition_max_bytes=most,
                )
                for number, (offset, leader, last, most) in places.items()
            ],
        )
        for topic, places in named.items()
    ]  # fmt: skip
    whole = b"".join(request(replace(shown, session_epoch=epoch, topics=parts), version, client_id)(correlation))
    flat = {(topic, number): place for topic, places in named.items() for number, place in places.items()}
    assert b"".join(RequestForm(shown, version, client_id).framed(epoch, flat, correlation)) == whole


PLAIN_PART = st.builds(
    FetchResponsePartition,
    partition_index=st.integers(0, 5),
    high_watermark=I64,
    last_stable_offset=I64,
    log_start_offset=I64,
    aborted_transactions=st.sampled_from([None, ()]),
    records=st.one_of(st.none(), st.binary(max_size=20), st.just(b"r" * 20_000)),
)


@st.composite
def answers(draw: st.DrawFn, version: int) -> FetchResponse:
    named = draw(st.lists(topics(version), max_size=3, unique=True))
    parts = st.lists(PLAIN_PART, max_size=3, unique_by=lambda part: part.partition_index)
    responses = [FetchResponseTopic(**called(topic), partitions=draw(parts)) for topic in named]  # type: ignore[arg-type]
    return FetchResponse(throttle_time_ms=draw(I32), session_id=draw(I32), responses=responses)


def body(answer: FetchResponse, version: int) -> bytes:
    return b"".join(bytes(piece) for piece in response(answer, version, 7))[4:]  # type: ignore[arg-type]


def as_codec_has_it(answer: FetchResponse, version: int) -> Plain:
    found = {
        (each.topic_id if version >= FIRST_WITH_IDS else each.topic, part.partition_index): (
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset,
            None if part.aborted_transactions is None else (),
            part.records,
        )
        for each in answer.responses
        for part in each.partitions
    }
    return answer.session_id, found  # type: ignore[return-value]


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_plain_answer_is_as_the_codec_reads_it(data: st.DataObject, version: int) -> None:
    answer = data.draw(answers(version))
    assert read_plain(memoryview(body(answer, version)), version) == as_codec_has_it(answer, version)


@given(st.data(), st.sampled_from(VERSIONS))
def test_of_broken_bytes_nothing_is_said_that_the_codec_does_not_say(data: st.DataObject, version: int) -> None:
    whole = bytearray(body(data.draw(answers(version)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    told = bytes(whole[: data.draw(st.integers(4, len(whole)))])
    found = read_plain(memoryview(told), version)
    if found is None:
        return
    try:
        answer = read_response(FetchResponse, version, told)
    except ProtocolViolation as error:
        assert "left over" in error.message  # noqa: PT017 - bytes after a message are let pass
        return
    assert (answer.error_code, answer.node_endpoints) == (0, ())
    assert found == as_codec_has_it(answer, version)


def one(**fields: object) -> FetchResponse:
    part = FetchResponsePartition(**fields)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchResponseTopic(topic="t", topic_id=b"t" * 16, partitions=[part])])


@pytest.mark.parametrize(
    "answer",
    [
        FetchResponse(error_code=70),
        FetchResponse(node_endpoints=[FetchResponseNodeEndpoint(node_id=1)]),
        one(error_code=6),
        one(preferred_read_replica=2),
        one(aborted_transactions=[FetchResponseAbortedTransaction(producer_id=1)]),
        one(current_leader=FetchResponseCurrentLeader(leader_id=1, leader_epoch=1)),
    ],
    ids=["error", "nodes", "partition's error", "replica", "aborted", "leader"],
)
def test_what_is_unusual_is_left_to_the_codec(answer: FetchResponse) -> None:
    version = VERSIONS[-1]
    assert read_plain(memoryview(body(answer, version)), version) is None
    assert read_plain(memoryview(body(one(), version)), version) is not None


@given(st.binary(max_size=60), st.sampled_from(VERSIONS))
@example(bytes(15) + b"\x02" + bytes(16) + b"\xff" * 60, 18)
def test_any_bytes_are_read_or_left(data: bytes, version: int) -> None:
    read_plain(memoryview(data), version)


@pytest.mark.parametrize("size", [None, 0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 20_000])
@given(data=st.data())
def test_an_answer_about_one_partition_with_lengths_of_all_sizes(size: int | None, data: st.DataObject) -> None:
    version = VERSIONS[-1]
    answer = one(records=None if size is None else b"r" * size, high_watermark=5, partition_index=3)
    whole = bytearray(body(answer, version))
    assert read_plain(memoryview(whole), version) == as_codec_has_it(answer, version)
    at = data.draw(st.integers(4, min(len(whole), 80) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    for told in (bytes(whole), bytes(whole[: data.draw(st.integers(4, len(whole)))])):
        if (found := read_plain(memoryview(told), version)) is not None:
            assert found == as_codec_has_it(read_response(FetchResponse, version, told), version)
