"""Options of topics: described, replaced, changed one by one."""

from typing import Any

import pytest

from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.server.topic_options import BROKER_NAMES, OPTIONS
from penstock.protocols.kafka.wire.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.protocols.kafka.wire.metadata import MetadataRequestTopic
from penstock.protocols.kafka.wire.topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from penstock.store.config import log_config
from tests.unit.kafka_front.kit import Kit, run


def topics(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


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
        assert [(each.name, each.value, each.source) for each in found["retention.ms"].synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.hours", "168", 5),
        ]
        assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("delete", 5)
        assert found["max.message.bytes"].value == "1048588"
        assert not any(each.documentation for each in found.values())
        documented = await options_of(kit, include_documentation=True)
        assert all(each.documentation and not each.synonyms for each in documented.values())

    run(test)


def test_what_the_node_was_told_is_said_to_be_its_own_choice() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        size = (await options_of(kit, include_synonyms=True))["max.message.bytes"]
        assert (size.value, size.config_source, size.is_default) == ("5000", 4, False)
        assert [(each.value, each.source) for each in size.synonyms] == [("5000", 4), ("1048588", 5)]

    run(test, KafkaFrontOptions(max_message_bytes=5_000))


def test_all_options_are_kept_and_those_of_the_log_are_obeyed() -> None:
    values = {
        **{name: option.default for name, option in OPTIONS.items()},
        "cleanup.policy": "compact",
        "compression.type": "zstd",
        "compression.zstd.level": "-7",
        "flush.messages": "10",
        "flush.ms": "1000",
        "follower.replication.throttled.replicas": "*",
        "leader.replication.throttled.replicas": "0:1,1:1",
        "local.retention.ms": "9",
        "max.compaction.lag.ms": "50",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "40",
        "min.insync.replicas": "2",
        "preallocate": "true",
        "retention.bytes": "-7",
        "segment.index.bytes": "4",
        "segment.jitter.ms": "12",
        "unclean.leader.election.enable": "true",
    }

    async def test(kit: Kit) -> None:
        configs = [CreateTopicsRequestConfig(name=name, value=value) for name, value in values.items()]
        topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
        answer = await kit.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert (answer.topics[0].error_code, answer.topics[0].error_message) == (0, None)
        assert {name: each.value for name, each in (await options_of(kit)).items()} == values
        found = kit.store.topic("t")
        assert found is not None
        obeyed = log_config(found.config, kit.store.config)
        assert (obeyed.dirty_ratio, obeyed.min_lag_ms, obeyed.max_lag_ms) == (0.01, 40, 50)
        assert (obeyed.flush_records, obeyed.flush_ms, obeyed.segment_ms) == (10, 1_000, 50)

    run(test)


def test_what_has_no_options_says_so() -> None:
    async def test(kit: Kit) -> None:
        for kind, name, code in ((2, "missing", 3), (4, "9", 42), (8, "1", 42), (77, "x", 42)):
            resource = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
            answer = await kit.ask(DescribeConfigsRequest(resources=[resource]), 4)
            assert answer.results[0].error_code == code
        for name, changeable in (("1", set(BROKER_NAMES.values())), ("", set())):
            resource = DescribeConfigsRequestResource(resource_type=4, resource_name=name, configuration_keys=None)
            answer = await kit.ask(DescribeConfigsRequest(resources=[resource]), 4)
            assert answer.results[0].error_code == 0
            assert {each.name for each in answer.results[0].configs if not each.read_only} == changeable

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
        ("cleanup.policy", 3, "delete", 0, ""),
        ("retention.ms", 2, "9", 40, "5"),
        ("retention.ms", 0, "x", 40, "5"),
        ("retention.ms", 0, " +07 ", 0, "7"),
        ("retention.ms", 0, None, 42, "5"),
        ("retention.ms", 7, "9", 42, "5"),
        ("remote.storage.enable", 0, "true", 40, None),
        ("nonsense", 0, "x", 40, None),
        ("nonsense", 1, None, 0, None),
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
            configs = [AlterConfigsRequestConfig(name="retention.ms", value="5")]
            resource = AlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=configs)
            answer = await kit.ask(AlterConfigsRequest(resources=[resource]), 2)
            assert answer.responses[0].error_code == code

    run(test)
