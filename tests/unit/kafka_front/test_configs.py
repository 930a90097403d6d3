"""Options of topics: described, replaced, changed one by one."""

from typing import Any

import pytest

from penstock.protocols.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.protocols.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from penstock.protocols.kafka.messages.metadata import MetadataRequestTopic
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
