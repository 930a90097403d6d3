"""Refusals of every Kafka request on record: readable in the request's version, with the code, with its names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.errors import UsageError
from penstock.interfaces import Buffers, Frame
from penstock.protocols.kafka.errors import code_of
from penstock.protocols.kafka.server.fault_injection import KafkaWording
from penstock.protocols.kafka.wire.fetch import FetchRequest
from penstock.protocols.kafka.wire.framing import api_of, read_request, read_response, request
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tests.vectors.kafka_frames.recorded import Recorded, files, recorded

ERROR = "NOT_COORDINATOR"


def one_of_each() -> Iterator[tuple[Recorded, Recorded]]:
    """A request of every API and version on record, with the recorded answer to it."""
    seen = set()
    for name in files():
        asked: dict[bytes, Recorded] = {}
        for frame in recorded(name):
            correlation = frame.wire[8:12] if frame.is_request else frame.wire[4:8]
            if frame.is_request:
                asked[correlation] = frame
            elif (frame.api_key, frame.version) not in seen and correlation in asked:
                seen.add((frame.api_key, frame.version))
                yield asked.pop(correlation), frame


PAIRS = list(one_of_each())


def name_of(api_key: int) -> str:
    pair = api_of(api_key)
    assert pair is not None
    return pair.name


def codes(message: object) -> Iterator[int]:
    """Every ``error_code`` in a message."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name in ("error_code", "partition_error_code"):
            yield value
        for each in value if isinstance(value, list | tuple) else (value,):
            yield from codes(each)


@pytest.mark.parametrize(
    ("asked", "answered"), PAIRS, ids=[f"{name_of(asked.api_key)}-v{asked.version}" for asked, _ in PAIRS]
)
def test_every_recorded_request_can_be_refused(asked: Recorded, answered: Recorded) -> None:
    served = []

    async def serve(frame: Frame) -> Buffers:
        served.append(frame)
        return [answered.wire]

    frame = Frame(0, False, asked.body)
    wording = KafkaWording()
    assert wording.api_of(frame) == name_of(asked.api_key)
    answer = asyncio.run(wording.refusal(frame, ERROR, serve))
    assert answer is not None
    pair = api_of(asked.api_key)
    assert pair is not None
    told = read_response(pair.response, asked.version, b"".join(answer)[4:])
    true = read_response(pair.response, asked.version, answered.body)
    at_the_top = "error_code" in type(true).__slots__  # but perhaps in later versions only
    if len(list(codes(true))) > at_the_top:
        assert set(codes(told)) - {0} == {code_of(ERROR)}
    if served:
        assert pair.name in READS


READS = {
    *("DescribeAcls", "DescribeCluster", "DescribeConfigs", "DescribeGroups", "DescribeLogDirs", "DescribeProducers"),
    *("ConsumerGroupDescribe", "DescribeTopicPartitions", "FindCoordinator", "GetTelemetrySubscriptions", "Metadata"),
    *("ListConfigResources", "ListPartitionReassignments", "OffsetFetch", "OffsetForLeaderEpoch"),
    *("AddPartitionsToTxn", "WriteTxnMarkers"),
}
"""Served even if refused, for they change nothing (or are not served at all)."""


def refuse(message: object, version: int, error: str = ERROR) -> Buffers | None:
    async def never(frame: Frame) -> Buffers:
        raise AssertionError(frame)

    wire = b"".join(request(message, version, "client")(7))
    return asyncio.run(KafkaWording().refusal(Frame(7, False, memoryview(wire)[4:]), error, never))


def test_names_are_repeated_beside_the_code() -> None:
    topics = [ProduceRequestTopic(name="t", partition_data=[ProduceRequestPartition(index=n) for n in (3, 5)])]
    answer = refuse(ProduceRequest(acks=-1, topic_data=topics), 9)
    assert answer is not None
    pair = api_of(0)
    assert pair is not None
    told = read_response(pair.response, 9, b"".join(answer)[4:])
    (topic,) = told.responses
    assert topic.name == "t"
    assert [(part.index, part.error_code, part.base_offset) for part in topic.partition_responses] == [
        (3, code_of(ERROR), -1),
        (5, code_of(ERROR), -1),
    ]


def test_a_producer_that_waits_for_no_answer_gets_none() -> None:
    assert refuse(ProduceRequest(acks=0), 9) is None


def test_an_unsupported_version_is_said_in_the_oldest() -> None:
    (asked,) = [asked for asked, _ in PAIRS if (asked.api_key, asked.version) == (18, 3)]
    _, message = read_request(asked.body)
    answer = refuse(message, 3, "UNSUPPORTED_VERSION")
    assert answer is not None
    pair = api_of(18)
    assert pair is not None
    assert read_response(pair.response, 0, b"".join(answer)[4:]).error_code == 35


def test_bytes_that_are_no_request_have_no_api() -> None:
    for body in (b"", b"\xff" * 20, b"\x7f\xff\x00\x00\x00\x00\x00\x00\xff\xff"):
        assert KafkaWording().api_of(Frame(0, False, memoryview(body))) == ""


def test_names_that_kafka_does_not_have_are_refused_with_the_nearest() -> None:
    wording = KafkaWording()
    wording.check("Fetch", "NOT_LEADER_OR_FOLLOWER")
    wording.check("")
    with pytest.raises(UsageError, match="'Fetch'"):
        wording.check("fetch")
    with pytest.raises(UsageError, match="'NOT_LEADER_OR_FOLLOWER'"):
        wording.check("Fetch", "NOT_LEADER_FOR_PARTITION_OR_FOLLOWER")
    with pytest.raises(UsageError, match="no error named 'NONE'"):
        wording.check("Fetch", "NONE")


def test_a_fetch_is_refused_without_waiting_for_records() -> None:
    assert refuse(FetchRequest(max_wait_ms=600_000, min_bytes=1), 12) is not None
