"""Topics: made, deleted, grown."""

from typing import Any

import pytest

from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.metadata import MetadataRequestTopic
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from tests.unit.kafka_front.kit import Kit, run


def topics(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


async def create(kit: Kit, name: str, *, version: int = 7, validate_only: bool = False, **given: Any) -> Any:
    topic = CreateTopicsRequestTopic(**{"name": name, "num_partitions": 1, "replication_factor": 1, **given})
    answer = await kit.ask(CreateTopicsRequest(topics=[topic], validate_only=validate_only), version)
    return answer.topics[0]


def option(name: str, value: str | None) -> list[CreateTopicsRequestConfig]:
    return [CreateTopicsRequestConfig(name=name, value=value)]


@pytest.mark.parametrize("version", range(8))
def test_a_topic_is_created_as_asked(version: int) -> None:
    async def test(kit: Kit) -> None:
        made = await create(kit, "t", version=version, num_partitions=4, configs=option("retention.ms", "5"))
        topic = kit.store.topic("t")
        assert topic is not None
        assert (made.error_code, topic.partitions, dict(topic.config)) == (0, 4, {"retention.ms": "5"})
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (4, 1)
            (shown,) = [each for each in made.configs if each.name == "retention.ms"]
            assert (shown.value, shown.config_source) == ("5", 1)
        if version >= 7:
            assert made.topic_id == topic.id

    run(test)


def assigned(*brokers: int) -> dict[str, Any]:
    rows = [CreateTopicsRequestAssignment(partition_index=i, broker_ids=[one]) for i, one in enumerate(brokers)]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": rows}


def test_partitions_may_be_assigned_one_by_one() -> None:
    async def test(kit: Kit) -> None:
        assert (await create(kit, "t", **assigned(1, 1, 1))).num_partitions == 3

    run(test)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -5}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": 10_000_000}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "a/b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "there"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"configs": option("no.such.option", "1")}, ErrorCode.INVALID_CONFIG),
        ({"configs": option("retention.ms", "soon")}, ErrorCode.INVALID_CONFIG),
        ({"configs": option("retention.ms", "-2")}, ErrorCode.INVALID_CONFIG),
        ({"configs": option("segment.bytes", str(2**31))}, ErrorCode.INVALID_CONFIG),
        ({"configs": option("cleanup.policy", "burn")}, ErrorCode.INVALID_CONFIG),
        ({"configs": option("compression.type", "none")}, ErrorCode.INVALID_CONFIG),
        ({"configs": option("retention.ms", None)}, ErrorCode.INVALID_CONFIG),
        (assigned(2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({**assigned(1), "num_partitions": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_created_says_why(given: dict[str, Any], code: ErrorCode, validate_only: bool) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("there", 1)
        answer = await create(kit, given.pop("name", "t"), validate_only=validate_only, **given)
        assert ErrorCode(answer.error_code) is code
        assert answer.error_message
        assert [topic.name for topic in kit.store.topics()] == ["there"]

    given = dict(given)
    run(test)


def test_validating_creates_nothing_and_a_name_twice_is_neither() -> None:
    async def test(kit: Kit) -> None:
        assert (await create(kit, "t", validate_only=True)).error_code == 0
        assert kit.store.topic("t") is None
        twice = [CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)] * 2
        answer = await kit.ask(CreateTopicsRequest(topics=twice), 7)
        assert {each.error_code for each in answer.topics} == {ErrorCode.INVALID_REQUEST}

    run(test)


def test_topics_are_deleted_by_name_or_by_id() -> None:
    async def test(kit: Kit) -> None:
        first, second = kit.store.create_topic("a", 1), kit.store.create_topic("b", 1)
        old = await kit.ask(DeleteTopicsRequest(topic_names=["a", "missing", "__consumer_offsets"]), 5)
        assert [each.error_code for each in old.responses] == [0, 3, 3]
        wanted = [
            DeleteTopicsRequestTopic(name=None, topic_id=second.id),
            DeleteTopicsRequestTopic(name=None, topic_id=first.id),
            DeleteTopicsRequestTopic(name="b", topic_id=second.id),
        ]
        new = await kit.ask(DeleteTopicsRequest(topics=wanted), 6)
        assert [(each.error_code, each.name) for each in new.responses] == [(0, "b"), (100, None), (42, "b")]
        assert not kit.store.topics()

    run(test)


def test_partitions_are_added_but_never_taken_away() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        for name, count, assignments, code in (
            ("t", 2, None, 37),
            ("t", 1, None, 37),
            ("missing", 3, None, 3),
            ("t", 3, [[1], [1]], 39),
            ("t", 3, [[9]], 39),
            ("t", 3, [[1]], 0),
            ("t", 5, None, 0),
        ):
            rows = (
                None
                if assignments is None
                else [CreatePartitionsRequestAssignment(broker_ids=one) for one in assignments]
            )
            topic = CreatePartitionsRequestTopic(name=name, count=count, assignments=rows)
            answer = await kit.ask(CreatePartitionsRequest(topics=[topic]), 3)
            assert answer.results[0].error_code == code
        assert (await extent(kit.enode, Partition("t", 4)))[:2] == (0, 0)

    run(test)


def test_a_name_that_differs_only_in_dots_is_taken() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("a.b", 1)
        assert (await create(kit, "a_b")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(test)
