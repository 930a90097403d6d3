"""Real answers, errors among them, in every advertised version: no version lacks a field that an answer needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.protocols.kafka.server.front import TABLE
from penstock.protocols.kafka.wire import cluster, configs
from penstock.protocols.kafka.wire import cluster as placing
from penstock.protocols.kafka.wire import configs as altering
from penstock.protocols.kafka.wire import topics as creating
from penstock.protocols.kafka.wire.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from penstock.protocols.kafka.wire.configs import ListConfigResourcesRequest
from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeTransactionsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from penstock.protocols.kafka.wire.framing import api_of, name_of
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
)
from penstock.protocols.kafka.wire.metadata import (
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
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)
from penstock.protocols.kafka.wire.produce import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopicV3,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from tests.unit.kafka_front.group_kit import commit, member
from tests.unit.kafka_front.kit import Kit, batch, run


def produce(version: int) -> list[Any]:
    def one(topic: str, records: bytes) -> ProduceRequest:
        part = ProduceRequestPartition(index=0, records=records)
        topic_id = (topic * 16).encode()[:16]
        data = [ProduceRequestTopic(name=topic, topic_id=topic_id, partition_data=[part])]
        return ProduceRequest(acks=-1, topic_data=data)

    return [one("t", batch()), one("t", batch(crc_flip=1)), one("keyed", batch(key=None)), one("no", batch())]


def fetch(version: int) -> list[Any]:
    def one(topic: str, offset: int, **given: Any) -> FetchRequest:
        part = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **given)
        name: dict[str, Any] = {"topic_id": (topic * 16).encode()[:16]} if version >= 13 else {"topic": topic}
        return FetchRequest(max_bytes=1 << 20, topics=[FetchRequestTopic(**name, partitions=[part])])

    return [one("t", 0), one("t", 99), one("no", 0), *([one("t", 99, last_fetched_epoch=1)] if version >= 12 else [])]


def list_offsets(version: int) -> list[Any]:
    def one(topic: str, timestamp: int) -> ListOffsetsRequest:
        part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=[part])])

    return [one("t", -1), one("t", -2), one("t", 0), one("t", 1 << 50), one("t", -6), one("t", -9), one("no", -1)]


def metadata(version: int) -> list[Any]:
    asked: dict[str, Any] = {} if version < 8 else {"include_topic_authorized_operations": True}
    names = [MetadataRequestTopic(name=each) for each in ("t", "no such name", "made")]
    return [MetadataRequest(topics=names, **asked), MetadataRequest(topics=[] if version == 0 else None, **asked)]


def offset_commit(version: int) -> list[Any]:
    parts = [OffsetCommitRequestPartition(partition_index=each, committed_offset=5) for each in (0, 9)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
    member_id = {"generation_id_or_member_epoch": 7, "member_id": "x"}
    return [
        OffsetCommitRequest(group_id="simple", topics=topics),
        OffsetCommitRequest(group_id="g", topics=topics, **member_id),
        OffsetCommitRequest(group_id="no", topics=topics, **member_id),
    ]


def offset_fetch(version: int) -> list[Any]:
    if version < 8:
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 9])
        return [OffsetFetchRequest(group_id=each, topics=[topic]) for each in ("g", "no")]
    wanted = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0, 9])
    groups = [OffsetFetchRequestGroup(group_id=each, topics=[wanted]) for each in ("g", "no")]
    return [OffsetFetchRequest(groups=groups, require_stable=True)]


def find_coordinator(version: int) -> list[Any]:
    if version >= 4:
        return [FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]) for kind in (0, 1, 2)]
    return [FindCoordinatorRequest(key="g", **({} if version == 0 else {"key_type": kind})) for kind in (0, 1, 2)]


def leave_group(version: int) -> list[Any]:
    return [
        LeaveGroupRequest(group_id=group, **({"member_id": "x"} if version < 3 else {})) for group in ("g", "no", "")
    ]


def alter(kind: str, version: int) -> list[Any]:
    made = getattr(altering, f"{kind}Request")
    resource, config = getattr(altering, f"{kind}RequestResource"), getattr(altering, f"{kind}RequestConfig")
    return [
        made(resources=[resource(resource_type=2, resource_name=name, configs=[config(name=key, value="5")])])
        for name, key in (("t", "retention.ms"), ("t", "no.such"), ("no", "retention.ms"))
    ]


def describe(version: int) -> list[Any]:
    resources = [
        altering.DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((2, "t"), (2, "no"), (4, "1"))
    ]
    return [altering.DescribeConfigsRequest(resources=resources)]


def create_topics(version: int) -> list[Any]:
    topics = [CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1) for name in ("n", "t", "a/b")]
    return [CreateTopicsRequest(topics=topics)]


def delete(version: int) -> list[Any]:
    if version < 6:
        return [creating.DeleteTopicsRequest(topic_names=["gone", "no"])]
    return [creating.DeleteTopicsRequest(topics=[creating.DeleteTopicsRequestTopic(name="no")])]


def delete_some(version: int) -> list[Any]:
    parts = [creating.DeleteRecordsRequestPartition(partition_index=each, offset=0) for each in (0, 9)]
    return [creating.DeleteRecordsRequest(topics=[creating.DeleteRecordsRequestTopic(name="t", partitions=parts)])]


def epochs(version: int) -> list[Any]:
    parts = [OffsetForLeaderEpochRequestPartition(partition=each, leader_epoch=1) for each in (0, 9)]
    return [OffsetForLeaderEpochRequest(topics=[OffsetForLeaderEpochRequestTopic(topic="t", partitions=parts)])]


def partitions(version: int) -> list[Any]:
    rows = [CreatePartitionsRequestTopic(name=name, count=2, assignments=None) for name in ("t", "no")]
    return [CreatePartitionsRequest(topics=rows)]


def delete_offsets(version: int) -> list[Any]:
    topics = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    return [OffsetDeleteRequest(group_id=group, topics=topics) for group in ("g", "simple", "no")]


def log_dirs(version: int) -> list[Any]:
    topics = [placing.DescribeLogDirsRequestTopic(topic=name, partitions=[0]) for name in ("t", "no")]
    return [placing.DescribeLogDirsRequest(topics=each) for each in (None, topics)]


def place(version: int) -> list[Any]:
    topics = [placing.AlterReplicaLogDirsRequestTopic(name=name, partitions=[0]) for name in ("t", "no")]
    return [
        placing.AlterReplicaLogDirsRequest(dirs=[placing.AlterReplicaLogDirsRequestDir(path=path, topics=topics)])
        for path in ("memory:", "elsewhere")
    ]


def elect(version: int) -> list[Any]:
    part = placing.ElectLeadersRequestTopicPartitions
    named = [part(topic=name, partitions=[0, 7]) for name in ("t", "no")]
    return [placing.ElectLeadersRequest(topic_partitions=each) for each in (None, named)]


def move(version: int) -> list[Any]:
    part = placing.AlterPartitionReassignmentsRequestPartition
    parts = [part(partition_index=number, replicas=each) for number, each in ((0, [1]), (0, [2]), (0, None), (7, [1]))]
    topics = [placing.AlterPartitionReassignmentsRequestTopic(name=name, partitions=parts) for name in ("t", "no")]
    return [placing.AlterPartitionReassignmentsRequest(topics=topics)]


def describe_quorum(version: int) -> list[Any]:
    part = cluster.DescribeQuorumRequestPartition(partition_index=0)
    topics = [
        cluster.DescribeQuorumRequestTopic(topic_name=name, partitions=[part]) for name in ("__cluster_metadata", "t")
    ]
    return [cluster.DescribeQuorumRequest(topics=topics)]


def describe_quotas(version: int) -> list[Any]:
    component = configs.DescribeClientQuotasRequestComponent
    components = [component(entity_type=kind, match_type=2, match=None) for kind in ("user", "no")]
    return [configs.DescribeClientQuotasRequest(components=[each]) for each in components]


def alter_quotas(version: int) -> list[Any]:
    entity = configs.AlterClientQuotasRequestEntity(entity_type="user", entity_name=None)
    entry = configs.AlterClientQuotasRequestEntry(entity=[entity], ops=[])
    return [configs.AlterClientQuotasRequest(entries=[entry])]


def acls(version: int) -> list[Any]:
    return [configs.DescribeAclsRequest(resource_type_filter=1, resource_name_filter=None, operation=1)]


def credentials(version: int) -> list[Any]:
    nobody = configs.DescribeUserScramCredentialsRequestUser(name="nobody")
    return [configs.DescribeUserScramCredentialsRequest(users=each) for each in (None, [nobody])]


ASKED: dict[int, Any] = {
    0: produce,
    1: fetch,
    2: list_offsets,
    3: metadata,
    8: offset_commit,
    9: offset_fetch,
    10: find_coordinator,
    11: lambda version: [JoinGroupRequest(group_id=group, session_timeout_ms=10_000) for group in ("g", "")],
    12: lambda version: [HeartbeatRequest(group_id=group, generation_id=1, member_id="x") for group in ("g", "no")],
    13: leave_group,
    14: lambda version: [SyncGroupRequest(group_id=group, generation_id=1, member_id="x") for group in ("g", "no", "")],
    15: lambda version: [DescribeGroupsRequest(groups=["g", "simple", "no"])],
    16: lambda version: [ListGroupsRequest()],
    18: lambda version: [],  # test_sessions
    19: create_topics,
    20: delete,
    21: delete_some,
    22: lambda version: [InitProducerIdRequest(transactional_id=each) for each in (None, "x")],
    23: epochs,
    24: lambda version: [
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=each,
            v3_and_below_topics=[AddPartitionsToTxnRequestTopicV3(name=name, partitions=[0]) for name in ("t", "no")],
        )
        for each in ("x", "")
    ],
    25: lambda version: [AddOffsetsToTxnRequest(transactional_id="x", group_id="g")],
    26: lambda version: [EndTxnRequest(transactional_id="x", committed=each) for each in (True, False)],
    27: lambda version: [
        WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequestMarker(
                    producer_id=1, topics=[WriteTxnMarkersRequestTopic(name=name, partition_indexes=[0])]
                )
                for name in ("t", "no")
            ]
        )
    ],
    28: lambda version: [
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=[TxnOffsetCommitRequestPartition()])
                for name in ("t", "no")
            ],
        )
        for group in ("simple", "")
    ],
    32: describe,
    33: lambda version: alter("AlterConfigs", version),
    37: partitions,
    68: lambda version: [
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        for group in ("newer", "g")
    ],
    76: lambda version: [ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])],
    69: lambda version: [ConsumerGroupDescribeRequest(group_ids=["newer", "g", "no"])],
    42: lambda version: [DeleteGroupsRequest(groups_names=["g", "simple", "no"])],
    34: place,
    35: log_dirs,
    43: elect,
    44: lambda version: alter("IncrementalAlterConfigs", version),
    45: move,
    46: lambda version: [placing.ListPartitionReassignmentsRequest()],
    29: acls,
    48: describe_quotas,
    49: alter_quotas,
    50: credentials,
    55: describe_quorum,
    74: lambda version: [ListConfigResourcesRequest(resource_types=each if version else ()) for each in ((), [99])],
    47: delete_offsets,
    60: lambda version: [DescribeClusterRequest()],
    61: lambda version: [
        DescribeProducersRequest(
            topics=[DescribeProducersRequestTopic(name=name, partition_indexes=[0]) for name in ("t", "no")]
        )
    ],
    65: lambda version: [DescribeTransactionsRequest(transactional_ids=["x", "no", ""])],
    66: lambda version: [
        ListTransactionsRequest(),
        ListTransactionsRequest(state_filters=["odd"]),
        *(ListTransactionsRequest(transactional_id_pattern=each) for each in ("x.*", "(") if version >= 2),
    ],
    75: lambda version: [
        DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequestTopic(name=each) for each in ("t", "no")])
    ],
}

PAIRS = [(key, version) for key, row in TABLE.items() for version in range(row.lowest, row.highest + 1)]


@pytest.mark.parametrize(("key", "version"), PAIRS)
def test_answers_and_errors_fit_into_the_version(key: int, version: int) -> None:
    async def test(kit: Kit) -> None:
        for name, config in (("t", {}), ("gone", {}), ("keyed", {"cleanup.policy": "compact"})):
            kit.store.create_topic(name, 1, config)
        await kit.produce("t", batch())
        await member(kit)
        await commit(kit, 1, group_id="simple")
        for request in ASKED[key](version):
            pair = api_of(key)
            assert pair is not None
            assert isinstance(await kit.ask(request, version), pair.response)

    run(test)


def documented() -> dict[int, tuple[str, str, str, str]]:
    """The rows of the page of APIs, by key: name, versions here, versions of a real broker, and why not further."""
    page = (Path(__file__).parents[3] / "docs/node/kafka-apis.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:2] == "| "]
    return {int(row[1]): (row[0], row[2], row[3], row[4]) for row in rows if row[1].isdigit()}


def shown(lowest: int, highest: int) -> str:
    """Versions as the page has them."""
    return str(lowest) if lowest == highest else f"{lowest}–{highest}"


def test_the_page_of_apis_shows_the_table_and_why_a_broker_goes_further() -> None:
    page = documented()
    ours = {key: row[1] for key, row in page.items() if row[1] != "–"}
    assert ours == {key: shown(row.lowest, row.highest) for key, row in TABLE.items()}
    assert {key: page[key][0] for key in TABLE} == {key: name_of(key) for key in TABLE}
    further = {key for key, (_, here, there, _) in page.items() if here.split("–")[-1] != there.split("–")[-1]}
    assert {key for key, row in page.items() if row[3]} == further


def test_every_api_is_asked() -> None:
    assert set(ASKED) == set(TABLE)
