"""What tools ask of a cluster: sizes, elections, moves, its quorum, quotas, options of what is no topic."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.cluster import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from penstock.protocols.kafka.wire.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    ListConfigResourcesRequest,
)
from penstock.store import open_store
from tests.unit.kafka_front.kit import Kit, batch, run, serving


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    async def main() -> None:
        with open_store(f"file:{tmp_path}") as store:
            async with serving(store=store) as kit:
                kit.store.create_topic("t", 2)
                await kit.produce("t", batch([b"x" * 500]), partition=1)
                (result,) = (await kit.ask(DescribeLogDirsRequest(topics=None), 4)).results
                (topic,) = [each for each in result.topics if each.name == "t"]
                size = sum(file.stat().st_size for file in (tmp_path / "t-1").glob("*.log"))
                assert [(each.partition_index, each.partition_size) for each in topic.partitions] == [(0, 0), (1, size)]
                assert size > 500
                assert (result.error_code, result.log_dir) == (0, str(tmp_path))
                assert result.total_bytes > result.usable_bytes > 0

    asyncio.run(main())


def test_nobody_knows_how_much_fits_into_memory() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        wanted = [DescribeLogDirsRequestTopic(topic=name, partitions=[0, 7]) for name in ("t", "missing")]
        (result,) = (await kit.ask(DescribeLogDirsRequest(topics=wanted), 4)).results
        assert [(each.name, [part.partition_index for part in each.partitions]) for each in result.topics] == [
            ("t", [0])
        ]
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)

    run(test)


def test_every_partition_has_its_leader_and_its_place() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        wanted = ElectLeadersRequestTopicPartitions(topic="t", partitions=[0, 1])
        (topic,) = (await kit.ask(ElectLeadersRequest(topic_partitions=[wanted]), 2)).replica_election_results
        assert [each.error_code for each in topic.partition_result] == [84, 3]
        for replicas, code in (([1], 0), ([2], 39), ([], 39), ([1, 1], 39), (None, 85)):
            part = AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=replicas)
            move = AlterPartitionReassignmentsRequestTopic(name="t", partitions=[part])
            answer = await kit.ask(AlterPartitionReassignmentsRequest(topics=[move]), 1)
            assert answer.responses[0].partitions[0].error_code == code

    run(test)


def test_the_quorum_is_this_node() -> None:
    async def test(kit: Kit) -> None:
        part = DescribeQuorumRequestPartition(partition_index=0)
        topic = DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=[part])
        answer = await kit.ask(DescribeQuorumRequest(topics=[topic]), 2)
        told = answer.topics[0].partitions[0]
        assert (told.leader_id, [each.replica_id for each in told.current_voters]) == (1, [1])
        assert [(each.node_id, each.listeners[0].port) for each in answer.nodes] == [(1, 9_092)]

    run(test)


def test_quotas_are_refused_rather_than_forgotten() -> None:
    async def test(kit: Kit) -> None:
        assert (await kit.ask(DescribeClientQuotasRequest(components=[]), 1)).entries == ()
        user = AlterClientQuotasRequestEntity(entity_type="user", entity_name="x")
        entry = AlterClientQuotasRequestEntry(entity=[user], ops=[])
        (answer,) = (await kit.ask(AlterClientQuotasRequest(entries=[entry]), 1)).entries
        assert (answer.error_code, answer.error_message) == (42, "This node keeps no quotas")

    run(test)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_who_copies_access_rules_is_told_that_there_are_none_to_copy(version: int) -> None:
    async def test(kit: Kit) -> None:
        answer = await kit.ask(DescribeAclsRequest(resource_type_filter=2, resource_name_filter=None), version)
        assert answer.error_code == ErrorCode.SECURITY_DISABLED
        assert (answer.error_message, answer.resources) == ("No Authorizer is configured on the broker", ())

    run(test)


@pytest.mark.parametrize(
    ("version", "kinds", "code", "found"),
    [(0, (), 0, []), (1, [2], 0, [("t", 2)]), (1, [4], 0, [("1", 4)]), (1, [8, 32], 0, []), (1, [99], 35, [])],
)
def test_what_has_options_is_listed(version: int, kinds: Any, code: int, found: list[tuple[str, int]]) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        answer = await kit.ask(ListConfigResourcesRequest(resource_types=kinds), version)
        told = [(each.resource_name, each.resource_type) for each in answer.config_resources]
        assert (answer.error_code, [each for each in told if not each[0].startswith("__")]) == (code, found)

    run(test)


@pytest.mark.parametrize(
    ("kind", "name", "option", "code", "words"),
    [
        (4, "1", "log.retention.hours", 42, "Cannot update these configs dynamically: [log.retention.hours]"),
        (
            4,
            "1",
            "message.max.bytes",
            42,
            "Invalid value -1 for configuration message.max.bytes: Value must be at least",
        ),
        (4, "", "num.partitions", 42, "Cannot update these configs dynamically: [num.partitions]"),
        (4, "2", "num.partitions", 42, "Unexpected broker id, expected 1, but received 2"),
        (8, "1", "root", 42, "This node has no loggers"),
        (16, "m", "metrics", 40, "metrics is for metrics of clients"),
        (32, "g", "nonsense", 40, "Unknown group config name: nonsense"),
        (32, "g", "share.session.timeout.ms", 40, "share.session.timeout.ms is for share groups"),
        (32, "", "share.session.timeout.ms", 42, "Default group resources are not allowed."),
        (77, "x", "a", 42, "Unknown resource type 77"),
    ],
)
def test_what_cannot_be_set_says_what_it_is(kind: int, name: str, option: str, code: int, words: str) -> None:
    async def test(kit: Kit) -> None:
        change = IncrementalAlterConfigsRequestConfig(name=option, config_operation=0, value="-1")
        resource = IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=[change])
        (told,) = (await kit.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses
        assert (told.error_code, told.error_message.startswith(words)) == (code, True), told.error_message

    run(test)


def test_options_are_described_with_kafkas_names() -> None:
    async def test(kit: Kit) -> None:
        for kind, name, option, value, source in (
            (4, "1", "group.initial.rebalance.delay.ms", "0", 4),
            (4, "1", "log.retention.hours", "168", 5),
            (4, "1", "node.id", "1", 4),
            (16, "m", "interval.ms", "300000", 5),
            (32, "g", "consumer.session.timeout.ms", "45000", 5),
            (32, "g", "consumer.assignment.interval.ms", "0", 4),
        ):
            resource = DescribeConfigsRequestResource(
                resource_type=kind, resource_name=name, configuration_keys=[option]
            )
            (told,) = (await kit.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)).results
            assert ErrorCode(told.error_code) is ErrorCode.NONE
            assert [(each.value, each.config_source) for each in told.configs] == [(value, source)]

    run(test)
