"""What a Kafka client is refused stands in the node's log: who asked, for what, which code, why, what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.errors import ProtocolViolation, UpstreamLost
from penstock.interfaces.enode import Abilities
from penstock.protocols.kafka.server import refusals
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.groups import HeartbeatRequest, JoinGroupRequest
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdRequest,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from penstock.protocols.kafka.wire.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from tests.unit.kafka_front.kit import Kit, batch, run

ME = "client me at 127.0.0.1:50000"


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Lines as they come."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Handler(), logging.getLogger("penstock.refused")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def fetch(topic: str, *numbers: int, offset: int = 0) -> FetchRequest:
    parts = [
        FetchRequestPartition(partition=number, fetch_offset=offset, partition_max_bytes=100) for number in numbers
    ]
    return FetchRequest(session_epoch=-1, topics=[FetchRequestTopic(topic=topic, partitions=parts)])


def test_a_reader_of_nothing_is_told_of_once_whatever_partitions_it_names(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        for _ in range(3):
            await kit.ask(fetch("none", 0, 1, 2), 11)
        (line,) = told
        assert line.startswith(f"kafka: Fetch of {ME} (topic none-0) was answered UNKNOWN_TOPIC_OR_PARTITION (3): ")
        assert line.endswith("; create the topic, or check its name and the partition number")

    run(test)


def test_the_words_are_those_of_what_went_wrong(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("flights", 1, {"max.message.bytes": "100"})
        await kit.ask(fetch("flights", 0, offset=7), 11)
        assert told.pop().startswith(
            f"kafka: Fetch of {ME} (topic flights-0) was answered OFFSET_OUT_OF_RANGE (1): cannot read: the log has "
        )
        await kit.produce("flights", batch([b"x" * 1_000]))
        (line,) = told
        assert line.startswith(f"kafka: Produce of {ME} (topic flights-0) was answered MESSAGE_TOO_LARGE (10): ")
        assert "100" in line

    run(test)


def test_a_single_batch_that_the_log_behind_does_not_take_is_told_with_its_clients_name(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("flights", 1, {})
        append_all = kit.enode.append_all

        async def away(batches: object) -> list[object]:
            return [UpstreamLost("broker-1 is away", hint="Start it")]

        kit.enode.append_all = away  # type: ignore[method-assign, assignment]
        part = ProduceRequestPartition(index=0, records=batch())
        request = ProduceRequest(
            acks=-1, timeout_ms=1, topic_data=[ProduceRequestTopic(name="flights", partition_data=[part])]
        )
        await kit._ask(request, 9, "billing")
        kit.enode.append_all = append_all  # type: ignore[method-assign]
        assert told == [
            "kafka: Produce of client billing at 127.0.0.1:50000 (topic flights-0) was answered NOT_LEADER_OR_FOLLOWER "
            "(6): broker-1 is away; Start it"
        ]

    run(test)


def test_groups_are_named(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        await kit.ask(HeartbeatRequest(group_id="readers", generation_id=1, member_id="nobody"), 4)
        assert told.pop() == (
            f"kafka: Heartbeat of {ME} (group readers) was answered UNKNOWN_MEMBER_ID (25): unknown member id; "
            "join again: this member was removed, mostly after a session timeout"
        )
        await kit.ask(JoinGroupRequest(group_id="", session_timeout_ms=10_000), 5)
        assert "INVALID_GROUP_ID (24)" in told.pop()

    run(test)


def test_what_a_client_is_told_in_words_is_told_here_too(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        await kit.ask(
            CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name="a b", num_partitions=1, replication_factor=1)]),
            5,
        )
        assert told.pop().startswith(
            f"kafka: CreateTopics of {ME} (topic a b) was answered INVALID_TOPIC_EXCEPTION (17): 'a b' cannot be"
        )
        await kit.ask(MetadataRequest(topics=[MetadataRequestTopic(name="none")], allow_auto_topic_creation=False), 8)
        assert "Metadata" in told[-1]
        assert "(topic none)" in told[-1]

    run(test)


def test_what_the_log_behind_cannot_do_is_told_with_who_asked_for_it(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        await kit.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1_000), 4)
        assert told.pop().startswith(
            f"kafka: InitProducerId of {ME} (group tx) was answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53): "
        )

    run(test, able=Abilities(transactions=False))


def test_a_request_that_nobody_serves_is_told_before_its_client_is_hung_up_on(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        with pytest.raises(ProtocolViolation):
            await kit.ask(fetch("t", 0), 3)
        assert told == [
            f"kafka: a request that is not served of {ME} was answered UNSUPPORTED_VERSION (35): API key 1 in version "
            "3 is not advertised, the client is hung up on; have it ask ApiVersions first, which leaves out what the "
            "log behind this node cannot do"
        ]

    run(test)


def test_who_reads_and_writes_is_not_told_of(told: list[str]) -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("flights", 1, {})
        await kit.produce("flights", batch())
        await kit.ask(fetch("flights", 0), 11)
        wrong = FetchRequest(session_id=5, session_epoch=5)
        assert (await kit.ask(wrong, 11)).error_code
        assert not told

    run(test)


def test_notes_of_two_requests_stay_apart() -> None:
    first = refusals.begin()
    refusals.note(1, UpstreamLost("one"))
    second = refusals.begin()
    for _ in range(1_000):
        refusals.note(2, UpstreamLost("two", hint="wait", topic="t"))
    assert first == [refusals.Note(1, "one", "", None)]
    assert set(second) == {refusals.Note(2, "two", "wait", "t")}
    assert len(second) == 100
