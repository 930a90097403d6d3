"""What tools ask of a cluster of one node: ours answers as a real broker does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.protocols.kafka.wire import cluster, configs
from penstock.protocols.kafka.wire import cluster as placing
from penstock.protocols.kafka.wire import configs as altering
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest, ListTransactionsRequest
from penstock.protocols.kafka.wire.declarations import Message, all_fields
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.groups import ConsumerGroupHeartbeatRequest
from penstock.protocols.kafka.wire.metadata import (
    ApiVersionsRequest,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdRequest,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from penstock.testing import Broker
from tests.interop.changing_groups import change_group
from tests.interop.peers.fixtures import KafkaBroker
from tests.interop.wire import Wire, told, wired
from tests.unit.kafka_front.kit import batch
from tests.unit.kafka_front.test_versions import documented, shown
from tests.unit.kafka_front.transaction_kit import SECOND, Writer

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
        if isinstance(value, Message):
            return {
                each.name: self._plain(getattr(value, each.name))
                for each in all_fields(type(value))
                if each.name not in OWN
            }
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
    component = configs.DescribeClientQuotasRequestComponent
    for kind, match_type, match in (
        ("user", 2, None),
        ("ip", 1, None),
        ("user", 0, None),
        ("x", 2, None),
        ("user", 9, ""),
    ):
        message = configs.DescribeClientQuotasRequest(
            components=[component(entity_type=kind, match_type=match_type, match=match)]
        )
        await asking.note(f"quotas of {kind} {match_type}", message, 1)
    user = configs.DescribeUserScramCredentialsRequestUser(name="nobody")
    for users in (None, [user]):
        await asking.note(f"credentials {users}", configs.DescribeUserScramCredentialsRequest(users=users), 0)


async def access_rules(asking: Asking) -> None:
    for version in (1, 2, 3):
        message = configs.DescribeAclsRequest(
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


async def newest_versions(asking: Asking) -> None:
    """What 4.1 to 4.3 added to the APIs of every day: topic ids in Produce, fields, filters and names of offsets."""
    wire, unknown = asking.wire, b"x" * 16
    metadata = await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=asking.topic)]), 13)
    topic_id = metadata.topics[0].topic_id
    asking.found["Metadata"] = (metadata.error_code, metadata.topics[0].error_code)

    async def produced(*ids: bytes) -> Sequence[object]:
        parts = [ProduceRequestPartition(index=each, records=batch()) for each in (0, 7)]
        data = [ProduceRequestTopic(topic_id=each, partition_data=parts) for each in ids]
        answer = await wire.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), 13)
        rows = {bytes(each.topic_id): each for each in answer.responses}  # a real broker puts what is wrong first
        return [
            (each == topic_id, part.index, part.error_code, part.base_offset, part.log_append_time_ms)
            for each in ids
            for part in sorted(rows[each].partition_responses, key=lambda part: part.index)
        ]

    asking.found["Produce"] = await produced(topic_id)
    asking.found["Produce, unknown ids"] = await produced(unknown, topic_id, bytes(16))
    wanted = [FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20, high_watermark=0)]
    for each in (topic_id, unknown):
        topics = [FetchRequestTopic(topic_id=each, partitions=wanted)]
        fetched = (await wire.ask(FetchRequest(max_bytes=1 << 20, topics=topics), 18)).responses[0].partitions[0]
        asking.found[f"Fetch {each == topic_id}"] = (
            *(fetched.error_code, fetched.high_watermark, fetched.log_start_offset, fetched.preferred_read_replica),
            *(fetched.diverging_epoch, fetched.snapshot_id, len(fetched.records or b"")),
        )
    for version, timestamp in product((10, 11), range(-7, 0)):
        part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequestTopic(name=asking.topic, partitions=[part])], timeout_ms=1_000
        )
        listed = (await wire.ask(request, version)).topics[0].partitions[0]
        asking.found[f"ListOffsets v{version} {timestamp}"] = (listed.error_code, listed.offset, listed.timestamp)
    for fenced in (False, True):
        described = await wire.ask(cluster.DescribeClusterRequest(include_fenced_brokers=fenced), 2)
        asking.found[f"DescribeCluster {fenced}"] = (
            *(described.error_code, described.endpoint_type),
            [(each.broker_id, each.is_fenced) for each in described.brokers],
        )
    ids = [f"{name}-{asking.topic}" for name in ("tx1", "tx2", "other")]
    await told(lambda: _coordinators(wire, ids, 1))
    for each in ids:
        asking.found[f"init {asking._plain(each)}"] = await told(partial(_initial, wire, each))
    for pattern in (f"tx.-{asking.topic}", "tx.", f"tx[1-]-{asking.topic}", f".*{asking.topic}", "(", "", "a++", None):
        listed = await wire.ask(ListTransactionsRequest(transactional_id_pattern=pattern, state_filters=["Odd"]), 2)
        all_of_them = await wire.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        asking.found[f"ListTransactions {asking._plain(pattern)}"] = (
            *(listed.error_code, list(listed.unknown_state_filters), list(listed.transaction_states)),
            all_of_them.error_code,
            sorted(
                asking._plain(each.transactional_id)
                for each in all_of_them.transaction_states
                if each.transactional_id in ids
            ),
        )


async def versions_of_4_4(asking: Asking) -> None:
    """A node that is meant in ApiVersions, topic ids in TxnOffsetCommit, and room for a reason in DeleteGroups."""
    wire, group = asking.wire, f"g-{asking.topic}"
    metadata = await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=asking.topic)]), 13)
    here, node = metadata.cluster_id, metadata.brokers[0].node_id
    for meant in product((None, here, "x", ""), (node, node + 1, -1, -2)):
        names = {"client_software_name": "test", "client_software_version": "1"}
        greeted = await wire.ask(ApiVersionsRequest(**names, cluster_id=meant[0], node_id=meant[1]), 5)
        answer = (greeted.error_code, bool(greeted.api_keys), bool(greeted.finalized_features))
        asking.found[f"mean {meant[0] and meant[0] == here} {meant[1] - node}"] = answer
    writer = Writer(wire, f"tx-{asking.topic}", SECOND)
    for key, kind in ((writer.name, 1), (group, 0)):
        await told(partial(_coordinators, wire, [key], kind))
    asking.found["init"] = await told(writer.init)
    writer.ids = {asking.topic: metadata.topics[0].topic_id, "unknown": b"x" * 16, "zero": bytes(16)}
    join = ConsumerGroupHeartbeatRequest(
        group_id=f"newer-{group}",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[asking.topic],
        topic_partitions=[],
    )
    epoch = (await wire.ask(join, 1)).member_epoch
    stranger = {"generation_id": 3, "member_id": "m"}
    member = {"generation_id": epoch, "member_id": "m"}
    for version, name in product((5, 6), (asking.topic, "unknown", "zero")):
        for who, among, identity in (
            ("no one", group, {}),
            ("a stranger", group, stranger),
            ("a member of a lost group", f"lost-{group}", stranger),
            ("a group without a name", "", {}),
            ("a member", f"newer-{group}", member),
            ("a member of the future", f"newer-{group}", {**member, "generation_id": epoch + 1}),
            ("a member of the past", f"newer-{group}", {**member, "generation_id": 0}),
            ("another member", f"newer-{group}", {**member, "member_id": "n"}),
        ):
            code = await told(partial(writer.commit_offsets, among, name, 5, version=version, **identity))
            asking.found[f"commit v{version} {asking._plain(name)} by {who}"] = code
    asking.found["end"] = await told(partial(writer.end, commit=True))
    for version in (2, 3):
        names = ["no-such-group", f"newer-{group}", group, ""]
        await asking.note("delete groups", DeleteGroupsRequest(groups_names=names), version)


async def strings(asking: Asking) -> None:
    """What is not UTF-8 is read with replacement characters: as many as Java puts there, wherever the string stands."""
    shown = "#" * 12
    asking.found["coordinator"] = await told(lambda: _coordinators(asking.wire, ["g"], 0))
    for bad in NOT_UTF8:
        meant = bad + b"x" * (len(shown) - len(bad))
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[shown])
        (found,) = (await asking.wire.ask_with(find, 4, shown.encode(), meant)).coordinators
        asking.found[f"key {bad.hex()}"] = (found.error_code, found.key)
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata=shown)
        topics = [OffsetCommitRequestTopic(name=asking.topic, partitions=[part])]
        commit = OffsetCommitRequest(group_id=shown, topics=topics)
        code = await told(partial(_committed, asking.wire, commit, meant))
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=found.key, topics=None)])
        (group,) = (await asking.wire.ask(fetch, 8)).groups
        rows = [(row.committed_offset, row.metadata) for each in group.topics for row in each.partitions]
        asking.found[f"commit {bad.hex()}"] = (code, group.group_id, rows)
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=shown)])
        (topic,) = (await asking.wire.ask_with(metadata, 12, shown.encode(), meant)).topics
        asking.found[f"topic {bad.hex()}"] = (topic.error_code, topic.name)


NOT_UTF8 = (
    *(
        "für".encode("latin-1"),
        "测试".encode("gbk"),
        b"\xff\xfe",
        b"\x80\x80",
        b"\xe2\x82",
        b"\xe2\x28\xa1",
        b"\xc0\xaf",
    ),
    *(
        b"\xed\xa0\x80",
        b"\xed\xa0\xbd\xed\xb8\x80",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xe0\x80\xaf",
    ),
    *(b"\xed\xa0", b"\xed\xb0x"),
)
"""Latin-1, GBK, and each way in which bytes can fail to be UTF-8, surrogates and overlong forms among them."""


async def _coordinators(wire: Wire, keys: Sequence[str], kind: int) -> list[int]:
    answer = await wire.ask(FindCoordinatorRequest(coordinator_keys=keys, key_type=kind), 4)
    return [each.error_code for each in answer.coordinators]


async def _initial(wire: Wire, transactional_id: str) -> int:
    initial = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)
    return int((await wire.ask(initial, 5)).error_code)


async def _committed(wire: Wire, message: OffsetCommitRequest, meant: bytes) -> int:
    (topic,) = (await wire.ask_with(message, 9, message.group_id.encode(), meant)).topics
    return int(topic.partitions[0].error_code)


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
        newest_versions,
        versions_of_4_4,
        strings,
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


def test_the_page_of_apis_shows_what_a_real_broker_serves(kafka_broker: KafkaBroker) -> None:
    async def asked() -> dict[int, str]:
        async with wired(kafka_broker().bootstrap) as wire:
            answer = await wire.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 5)
            return {each.api_key: shown(each.min_version, each.max_version) for each in answer.api_keys}

    assert {key: theirs for key, (_, _, theirs, _) in documented().items()} == asyncio.run(asked())
