"""What tools ask of a cluster of one node: ours answers as a real broker does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

import pytest

from penstock.client import Admin, Producer
from penstock.protocols.kafka.messages import cluster, security
from penstock.protocols.kafka.messages import configs as altering
from penstock.protocols.kafka.messages import replicas as placing
from penstock.seams import NewTopic
from penstock.testing import Broker
from tests.interop.changing_groups import change_group
from tests.interop.peers.fixtures import KafkaBroker
from tests.interop.wire import Wire, told, wired

pytestmark = pytest.mark.interop

Told = dict[str, object]
Tools = Callable[..., str]


class Asking:
    """Everything is asked about one topic of two partitions, one that is not there, and the node; ``found`` is told."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire, self.topic = wire, topic
        self.found: Told = {}

    async def note(self, what: str, message: Any, version: int) -> Any:
        answer = await self.wire.ask(message, version)
        self.found[f"{what}, v{version}"] = self._plain(answer)
        return answer

    def _plain(self, value: Any) -> Any:
        """Without what differs between any two clusters."""
        if is_dataclass(value):
            return {each.name: self._plain(getattr(value, each.name)) for each in fields(value) if each.name not in OWN}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return sorted((self._plain(each) for each in value), key=repr)
        return "T" if value == self.topic else str(value).replace(self.topic, "T") if isinstance(value, str) else value


OWN = {
    *("log_dir", "total_bytes", "usable_bytes", "partition_size"),
    *("leader_epoch", "high_watermark", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp"),
    *("replica_directory_id", "nodes", "throttle_time_ms"),
}


async def elections(asking: Asking) -> None:
    part = placing.ElectLeadersRequestTopicPartitions
    wanted = [part(topic=asking.topic, partitions=[0, 1, 2]), part(topic="missing", partitions=[0])]
    for version, kind in ((0, 0), (1, 1), (2, 0), (2, 2)):
        message = placing.ElectLeadersRequest(election_type=kind if version else 0, topic_partitions=wanted)
        await asking.note(f"elect leaders of type {kind}", message, version)


async def reassignments(asking: Asking) -> None:
    places: tuple[list[int] | None, ...] = ([2], [1, 2], [], [1, 1], [-1], None)
    for name, number, place in [*product((asking.topic,), (0,), places), (asking.topic, 7, [1]), ("missing", 0, [1])]:
        part = placing.AlterPartitionReassignmentsRequestPartition(partition_index=number, replicas=place)
        topic = placing.AlterPartitionReassignmentsRequestTopic(name=name, partitions=[part])
        for version in (0, 1):
            message = placing.AlterPartitionReassignmentsRequest(topics=[topic])
            await asking.note(f"move {name == 'missing'}-{number} to {place}", message, version)
    named = placing.ListPartitionReassignmentsRequestTopic(name=asking.topic, partition_indexes=[0, 9])
    for topics in (None, [named]):
        await asking.note(f"list moves {topics is None}", placing.ListPartitionReassignmentsRequest(topics=topics), 0)


async def places(asking: Asking) -> None:
    part = placing.DescribeLogDirsRequestTopic
    wanted = [part(topic=asking.topic, partitions=[0, 1, 2]), part(topic="missing", partitions=[0])]
    for version in range(1, 6):
        answer = await asking.note("sizes", placing.DescribeLogDirsRequest(topics=wanted), version)
    await asking.note("sizes of nothing", placing.DescribeLogDirsRequest(topics=[]), 4)
    (result,) = answer.results
    # The same batches, so the same bytes.
    sizes = {row.partition_index: row.partition_size for row in result.topics[0].partitions}
    asking.found["sizes"] = (sizes, result.total_bytes > result.usable_bytes > 0)
    for path in (result.log_dir, "/nowhere", "nowhere"):
        rows = [
            placing.AlterReplicaLogDirsRequestTopic(name=name, partitions=[0, 9]) for name in (asking.topic, "missing")
        ]
        folder = placing.AlterReplicaLogDirsRequestDir(path=path, topics=rows)
        known = path == result.log_dir
        await asking.note(f"place where it is {known}", placing.AlterReplicaLogDirsRequest(dirs=[folder]), 2)


async def metadata_quorum(asking: Asking) -> None:
    for name, number in (("__cluster_metadata", 0), ("__cluster_metadata", 1), (asking.topic, 0)):
        part = cluster.DescribeQuorumRequestPartition(partition_index=number)
        topic = cluster.DescribeQuorumRequestTopic(topic_name=name, partitions=[part])
        for version in range(3):
            answer = await asking.note(
                f"quorum of {name == asking.topic}-{number}", cluster.DescribeQuorumRequest(topics=[topic]), version
            )
            asking.found[f"quorum of {name == asking.topic}-{number} has nodes, v{version}"] = [
                each.node_id for each in answer.nodes
            ]


async def client_quotas(asking: Asking) -> None:
    component = security.DescribeClientQuotasRequestComponent
    for kind, match_type, match in (
        ("user", 2, None),
        ("ip", 1, None),
        ("user", 0, None),
        ("x", 2, None),
        ("user", 9, ""),
    ):
        message = security.DescribeClientQuotasRequest(
            components=[component(entity_type=kind, match_type=match_type, match=match)]
        )
        await asking.note(f"quotas of {kind} {match_type}", message, 1)
    user = security.DescribeUserScramCredentialsRequestUser(name="nobody")
    for users in (None, [user]):
        await asking.note(f"credentials {users}", security.DescribeUserScramCredentialsRequest(users=users), 0)


async def access_rules(asking: Asking) -> None:
    for version in (1, 2, 3):
        message = security.DescribeAclsRequest(
            resource_type_filter=2,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        await asking.note("rules of topics", message, version)


async def resources(asking: Asking) -> None:
    for kinds in ([4], [16], [32], [1], [2, 99]):
        await asking.note(f"list {kinds}", altering.ListConfigResourcesRequest(resource_types=kinds), 1)
    await asking.note("list client metrics", altering.ListConfigResourcesRequest(), 0)
    answer = await asking.wire.ask(altering.ListConfigResourcesRequest(resource_types=[2]), 1)
    asking.found["topic is listed"] = asking.topic in {each.resource_name for each in answer.config_resources}


async def refusals(asking: Asking) -> None:
    """Of options of what is no topic, or not there."""
    whats = [(4, "9"), (4, "x"), (2, "missing"), (1, "x"), (64, "x")]
    for kind, name in whats:
        resource = altering.DescribeConfigsRequestResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        answer = await asking.wire.ask(altering.DescribeConfigsRequest(resources=[resource]), 4)
        result = answer.results[0]
        words = result.error_message if kind == 4 else ""
        asking.found[f"describe {kind} {name}"] = (result.error_code, words, len(result.configs))
    changes: list[tuple[int, str, Mapping[str, str]]] = [
        *((4, name, {"log.retention.ms": "5"}) for name in ("9", "x")),
        (2, "missing", {"retention.ms": "5"}),
        (2, "", {"retention.ms": "5"}),
        (32, "", {"consumer.session.timeout.ms": "46000"}),
        (32, "g", {"nonsense": "1"}),
        (16, "m", {"nonsense": "1"}),
        (1, "x", {"a": "b"}),
        (64, "x", {"a": "b"}),
        (2, asking.topic, {}),
        (4, "1", {}),
    ]
    for kind, name, options in changes:
        shown = "T" if name == asking.topic else name
        asking.found[f"alter {kind} {shown} {options}"] = await _altered(asking, kind, name, options)
    for options in ({"node.id": "2"}, {"num.partitions": "3"}):
        code, words = (await _altered(asking, 4, "1", options))[0]
        asking.found[f"alter {options}"] = (code, words.partition(";")[0])


async def _altered(asking: Asking, kind: int, name: str, options: Mapping[str, str]) -> list[tuple[int, str]]:
    entries = [altering.AlterConfigsRequestConfig(name=each, value=value) for each, value in options.items()]
    changes = [altering.IncrementalAlterConfigsRequestConfig(name=each, value=value) for each, value in options.items()]
    old = altering.AlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=entries)
    new = altering.IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=changes)
    answers = (
        await asking.wire.ask(altering.IncrementalAlterConfigsRequest(resources=[new], validate_only=True), 1),
        await asking.wire.ask(altering.AlterConfigsRequest(resources=[old], validate_only=True), 2),
    )
    return [(each.responses[0].error_code, each.responses[0].error_message) for each in answers]


DYNAMIC = (2, 3)
CHANGES: Sequence[tuple[str, Mapping[str, str | None]]] = [
    ("", {"log.retention.ms": "3600000", "log.roll.ms": "7000000", "log.flush.interval.ms": "9000"}),
    ("", {"message.max.bytes": "2000000", "compression.type": "zstd", "log.roll.jitter.ms": "5"}),
    ("1", {"log.retention.ms": "7200000", "log.cleaner.delete.retention.ms": "99"}),
    ("", {"group.max.session.timeout.ms": "60000"}),
    ("1", {"log.retention.hours": "5"}),
    ("", {"log.segment.bytes": "many"}),
    ("1", {"message.max.bytes": "-5"}),
    ("", {"compression.type": "zip"}),
    ("2", {"log.retention.ms": "1"}),
    ("", {"message.max.bytes": None}),
]


async def broker_changes(asking: Asking) -> None:
    """Each change's code, and then what is in force and by whom; all of it is taken back."""
    try:
        for number, (name, options) in enumerate(CHANGES):
            code, words = await _change(asking, name, options)
            asking.found[f"change {number}"] = (code, (words or "").partition(";")[0].partition(":")[0])
        await _settled(asking)
        for kind, name in ((4, "1"), (4, ""), (2, asking.topic)):
            for row in await _rows(asking, kind, name):
                dynamic = [(each.name, each.value, each.source) for each in row.synonyms if each.source in DYNAMIC]
                if dynamic and row.name != "min.insync.replicas":  # which a real one sets when it is formatted
                    asking.found[f"{kind} {asking._plain(name)} {row.name}"] = (row.value, row.config_source, dynamic)
    finally:
        for name in ("", "1"):
            taken_back = {each: None for scope, options in CHANGES if scope == name for each in options}
            for each in taken_back:
                await _change(asking, name, {each: None})


async def _settled(asking: Asking) -> None:
    """A real broker obeys a change a moment after it has answered."""

    async def seen() -> list[int]:
        rows = {row.name: row.value for row in await _rows(asking, 4, "1")}
        return [] if rows["message.max.bytes"] == "1048588" and rows["log.roll.jitter.ms"] == "5" else [6]

    await told(seen)


async def _change(asking: Asking, name: str, options: Mapping[str, str | None]) -> tuple[int, str | None]:
    changes = [
        altering.IncrementalAlterConfigsRequestConfig(name=each, value=value, config_operation=int(value is None))
        for each, value in options.items()
    ]
    resource = altering.IncrementalAlterConfigsRequestResource(resource_type=4, resource_name=name, configs=changes)
    (answer,) = (await asking.wire.ask(altering.IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses
    return answer.error_code, answer.error_message


async def _rows(asking: Asking, kind: int, name: str) -> Sequence[altering.DescribeConfigsResponseConfig]:
    resource = altering.DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
    message = altering.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    found: Sequence[altering.DescribeConfigsResponseConfig] = (await asking.wire.ask(message, 4)).results[0].configs
    return found


async def descriptions(asking: Asking) -> None:
    """Groups and client metrics have the same options everywhere; of a broker's we have some, of the same types."""
    for kind, name in ((32, "g"), (16, "m"), (4, "1")):
        resource = altering.DescribeConfigsRequestResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        message = altering.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        rows = (await asking.wire.ask(message, 4)).results[0].configs
        for row in rows:
            defaults = [(each.name, each.value) for each in row.synonyms if each.source == 5]
            shown: tuple[object, ...] = (row.config_type, row.is_sensitive, defaults, row.read_only)
            if kind != 4:
                shown = (*shown, row.value, row.config_source)
            asking.found[f"{kind} {row.name}"] = shown


async def group_changes(asking: Asking) -> None:
    """Of single groups: within the broker's bounds, and seen."""
    await change_group(asking.wire, asking.topic, asking.found)


QUESTIONS: Mapping[str, Callable[[Asking], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        elections,
        reassignments,
        places,
        metadata_quorum,
        client_quotas,
        access_rules,
        resources,
        refusals,
        broker_changes,
        group_changes,
        descriptions,
    )
}
KNOWN = {
    # Groups of KIP-848 are shared out at once here.
    "32 consumer.assignment.interval.ms",
    # Bound when the node starts; a real broker opens others while it runs.
    "4 listeners",
}


def answers(bootstrap: str, question: str) -> Told:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with Producer(f"kafka://{bootstrap}") as producer:
        for number in range(2):
            producer.send(name, value=b"x" * 100, partition=number, timestamp_ms=1_700_000_000_000).result()

    async def main() -> Told:
        async with wired(bootstrap) as wire:
            asking = Asking(wire, name)
            await QUESTIONS[question](asking)
            return asking.found

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("question", QUESTIONS)
def test_our_node_answers_as_a_real_broker(kafka_broker: KafkaBroker, broker: Broker, question: str) -> None:
    theirs, ours = (answers(each.bootstrap, question) for each in (kafka_broker(), broker))
    assert not ours.keys() - theirs.keys()
    if question != "descriptions":
        assert ours.keys() == theirs.keys()
    assert {
        what: (theirs[what], told) for what, told in ours.items() if told != theirs[what] and what not in KNOWN
    } == {}
