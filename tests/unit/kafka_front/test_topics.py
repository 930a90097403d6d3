"""Metadata, topics, their options and offsets in their logs."""

from typing import Any

import pytest

from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front import KafkaFrontOptions
from penstock.protocols.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.protocols.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
)
from penstock.protocols.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from penstock.protocols.kafka.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from penstock.protocols.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from penstock.protocols.kafka.messages.describe_cluster import DescribeClusterRequest
from penstock.protocols.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from penstock.protocols.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
)
from penstock.protocols.kafka.messages.init_producer_id import InitProducerIdRequest
from penstock.protocols.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from penstock.protocols.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tests.unit.kafka_front.kit import Kit, batch, run


def topics(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


# Metadata.


@pytest.mark.parametrize("version", range(13))
def test_metadata_names_the_node_and_all_topics(version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        kit.store.create_topic("__consumer_offsets", 1)
        answer = await kit.ask(MetadataRequest(topics=None if version else []), version)
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, "127.0.0.1", 9_092)]
        assert [(each.name, len(each.partitions)) for each in answer.topics] == [("__consumer_offsets", 1), ("t", 2)]
        part = answer.topics[1].partitions[1]
        assert (part.leader_id, list(part.replica_nodes), list(part.isr_nodes)) == (1, [1], [1])
        if version >= 1:
            assert answer.controller_id == 1
            assert [each.is_internal for each in answer.topics] == [True, False]

    run(test)


def test_no_topics_asked_for_is_not_all_topics() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert not (await kit.ask(MetadataRequest(topics=[]), 1)).topics

    run(test)


def test_a_missing_topic_is_made_where_both_sides_allow_it() -> None:
    async def test(kit: Kit) -> None:
        refused = await kit.ask(MetadataRequest(topics=topics("t"), allow_auto_topic_creation=False), 9)
        assert refused.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made = await kit.ask(MetadataRequest(topics=topics("t")), 9)
        assert (made.topics[0].error_code, len(made.topics[0].partitions)) == (0, 3)
        for name, code in (("a b", 17), ("..", 17), ("__transaction_state", 3)):
            assert (await kit.ask(MetadataRequest(topics=topics(name)), 9)).topics[0].error_code == code

    run(test, KafkaFrontOptions(default_partitions=3))


def test_a_node_that_makes_no_topics_says_unknown() -> None:
    async def test(kit: Kit) -> None:
        answer = await kit.ask(MetadataRequest(topics=topics("t")), 9)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test, KafkaFrontOptions(auto_create_topics=False))


def test_names_that_differ_only_in_dots_collide() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("a.b", 1)
        answer = await kit.ask(MetadataRequest(topics=topics("a_b")), 9)
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        created = await create(kit, "a_b")
        assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(test)


def test_topics_are_found_by_their_ids() -> None:
    async def test(kit: Kit) -> None:
        topic = kit.store.create_topic("t", 1)
        wanted = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic.id, b"x" * 16)]
        known, unknown = (await kit.ask(MetadataRequest(topics=wanted), 12)).topics
        assert (known.name, known.error_code) == ("t", 0)
        assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)

    run(test)


def test_allowed_operations_are_shown_when_asked_for() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        plain = await kit.ask(MetadataRequest(topics=None), 9)
        assert plain.topics[0].topic_authorized_operations == plain.cluster_authorized_operations == -(1 << 31)
        asked = MetadataRequest(
            topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        shown = await kit.ask(asked, 9)
        assert shown.topics[0].topic_authorized_operations & 1 << 4
        assert shown.cluster_authorized_operations & 1 << 5

    run(test)


# CreateTopics, DeleteTopics, CreatePartitions.


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
        ({"configs": option("compression.type", "gzip")}, ErrorCode.INVALID_CONFIG),
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
        assert kit.enode.bounds(Partition("t", 4)) == (0, 0)

    run(test)


# Options.


async def options_of(kit: Kit, name: str = "t", **given: Any) -> dict[str, Any]:
    resource = DescribeConfigsRequestResource(resource_type=2, resource_name=name, configuration_keys=None)
    answer = await kit.ask(DescribeConfigsRequest(resources=[resource], **given), 4)
    assert answer.results[0].error_code == 0
    return {each.name: each for each in answer.results[0].configs}


def test_options_are_described_with_where_they_come_from() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"retention.ms": "5"})
        found = await options_of(kit, include_synonyms=True)
        assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5", 1)
        assert [(each.value, each.source) for each in found["retention.ms"].synonyms] == [("5", 1), ("604800000", 5)]
        assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("delete", 5)
        assert found["max.message.bytes"].value == "1048588"

    run(test)


def test_what_has_no_options_says_so() -> None:
    async def test(kit: Kit) -> None:
        for kind, name, code in ((2, "missing", 3), (4, "9", 42), (16, "x", 42)):
            resource = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
            answer = await kit.ask(DescribeConfigsRequest(resources=[resource]), 4)
            assert answer.results[0].error_code == code
        for name in ("1", ""):
            resource = DescribeConfigsRequestResource(resource_type=4, resource_name=name, configuration_keys=None)
            answer = await kit.ask(DescribeConfigsRequest(resources=[resource]), 4)
            assert answer.results[0].error_code == 0
            assert all(each.read_only for each in answer.results[0].configs)

    run(test)


def test_altering_replaces_all_options() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"retention.ms": "5", "segment.ms": "7"})
        configs = [AlterConfigsRequestConfig(name="segment.ms", value="9")]
        for validate_only in (True, False):
            resource = AlterConfigsRequestResource(resource_type=2, resource_name="t", configs=configs)
            request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
            answer = await kit.ask(request, 2)
            assert answer.responses[0].error_code == 0
            topic = kit.store.topic("t")
            assert topic is not None
            assert ("retention.ms" in topic.config) == validate_only
        assert dict(topic.config) == {"segment.ms": "9"}

    run(test)


@pytest.mark.parametrize(
    ("name", "operation", "value", "code", "after"),
    [
        ("retention.ms", 0, "9", 0, "9"),
        ("retention.ms", 1, None, 0, None),
        ("cleanup.policy", 2, "compact", 0, "delete,compact"),
        ("cleanup.policy", 3, "delete", 40, None),
        ("retention.ms", 2, "9", 42, "5"),
        ("retention.ms", 0, "x", 40, "5"),
        ("nonsense", 0, "x", 40, None),
        ("nonsense", 1, None, 40, None),
    ],
)
def test_altering_one_option_leaves_the_others(
    name: str, operation: int, value: str | None, code: int, after: str | None
) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"retention.ms": "5", "segment.ms": "7"})
        change = IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)
        resource = IncrementalAlterConfigsRequestResource(resource_type=2, resource_name="t", configs=[change])
        answer = await kit.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        topic = kit.store.topic("t")
        assert topic is not None
        assert (answer.responses[0].error_code, topic.config.get(name)) == (code, after)
        assert topic.config["segment.ms"] == "7"

    run(test)


def test_only_existing_users_topics_have_options_to_alter() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("__consumer_offsets", 1)
        for kind, name, code in ((2, "missing", 3), (2, "__consumer_offsets", 42), (4, "1", 42)):
            resource = AlterConfigsRequestResource(resource_type=kind, resource_name=name)
            answer = await kit.ask(AlterConfigsRequest(resources=[resource]), 2)
            assert answer.responses[0].error_code == code

    run(test)


# Offsets in logs.


async def offset(kit: Kit, timestamp: int, *, version: int = 9, partition: int = 0, **given: int) -> Any:
    part = ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamp, **given)
    topic = ListOffsetsRequestTopic(name="t", partitions=[part])
    answer = await kit.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), version)
    return answer.topics[0].partitions[0]


def test_offsets_are_found_by_their_names_and_by_time() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await kit.produce(
            "t", batch([b"a"] * 3, time_ms=1_000), batch([b"a"], time_ms=3_000), batch([b"a"], time_ms=2_000)
        )
        for asked, expected in (
            (-1, (5, -1)),
            (-2, (0, -1)),
            (-3, (3, 3_000)),
            (-4, (0, -1)),
            (-5, (-1, -1)),
            (0, (0, 1_000)),
            (1_000, (0, 1_000)),
            (1_001, (3, 3_000)),
            (3_001, (-1, -1)),
        ):
            found = await offset(kit, asked)
            assert (found.error_code, found.offset, found.timestamp) == (0, *expected)

    run(test)


def test_an_empty_log_has_no_largest_time() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        found = await offset(kit, -3)
        assert (found.error_code, found.offset, found.timestamp) == (0, -1, -1)

    run(test)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 9), (-100, 9)])
def test_a_name_that_is_newer_than_the_version_is_unsupported(timestamp: int, version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await offset(kit, timestamp, version=version)).error_code == ErrorCode.UNSUPPORTED_VERSION

    run(test)


def test_offsets_of_what_is_not_there_are_errors() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await offset(kit, -1, partition=1)).error_code == 3
        assert (await offset(kit, -1, current_leader_epoch=0)).error_code == 74
        assert (await offset(kit, -1, current_leader_epoch=9)).error_code == 75
        parts = [ListOffsetsRequestPartition(partition_index=0, timestamp=-1)] * 2
        topic = ListOffsetsRequestTopic(name="t", partitions=parts)
        answer = await kit.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 9)
        assert {part.error_code for part in answer.topics[0].partitions} == {ErrorCode.INVALID_REQUEST}

    run(test)


async def delete_before(kit: Kit, at: int, topic: str = "t") -> tuple[int, int]:
    part = DeleteRecordsRequestPartition(partition_index=0, offset=at)
    answer = await kit.ask(DeleteRecordsRequest(topics=[DeleteRecordsRequestTopic(name=topic, partitions=[part])]), 2)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


def test_records_are_deleted_up_to_an_offset() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        kit.store.create_topic("compacted", 1, {"cleanup.policy": "compact"})
        await kit.produce("t", batch([b"a"] * 5))
        assert await delete_before(kit, 2) == (0, 2)
        assert await delete_before(kit, 1) == (0, 2)
        assert await delete_before(kit, 6) == (1, -1)
        assert await delete_before(kit, -7) == (1, -1)
        assert await delete_before(kit, 0, "missing") == (3, -1)
        assert await delete_before(kit, 0, "compacted") == (44, -1)
        assert await delete_before(kit, -1) == (0, 5)
        assert kit.enode.bounds(Partition("t", 0)) == (5, 5)

    run(test)


def test_epochs_end_where_the_log_ends() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await kit.produce("t", batch([b"a"] * 5))
        for number, epoch, code, end in ((0, 1, 0, 5), (1, 1, 3, -1)):
            part = OffsetForLeaderEpochRequestPartition(partition=number, leader_epoch=epoch)
            topic = OffsetForLeaderEpochRequestTopic(topic="t", partitions=[part])
            answer = await kit.ask(OffsetForLeaderEpochRequest(topics=[topic]), 4)
            found = answer.topics[0].partitions[0]
            assert (found.error_code, found.end_offset) == (code, end)

    run(test)


# The cluster.


def test_the_cluster_is_this_node() -> None:
    async def test(kit: Kit) -> None:
        answer = await kit.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert (answer.cluster_id, answer.controller_id) == (kit.store.cluster_id, 1)
        assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 9_092)]
        controllers = await kit.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert controllers.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    run(test)


def test_partitions_are_described_page_by_page() -> None:
    async def test(kit: Kit) -> None:
        for name in "cab":
            kit.store.create_topic(name, 3)
        wanted = [DescribeTopicPartitionsRequestTopic(name=name) for name in ("b", "a", "missing")]
        seen: list[tuple[str, int]] = []
        cursor = None
        for _ in range(10):
            request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=2, cursor=cursor)
            answer = await kit.ask(request, 0)
            seen += [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
            if answer.next_cursor is None:
                break
            at = answer.next_cursor
            cursor = DescribeTopicPartitionsRequestCursor(topic_name=at.topic_name, partition_index=at.partition_index)
        assert seen == [(name, number) for name in "ab" for number in range(3)]
        assert answer.topics[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


# Producers.


def test_each_producer_gets_an_id_of_its_own_and_transactional_ones_none() -> None:
    async def test(kit: Kit) -> None:
        ids = [(await kit.ask(InitProducerIdRequest(transactional_id=None), 4)).producer_id for _ in range(3)]
        assert len(set(ids)) == 3
        assert all(each >> 32 == kit.store.epoch for each in ids)
        refused = await kit.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1), 4)
        assert (refused.error_code, refused.producer_id) == (53, -1)

    run(test)
