"""Kafka answers that refuse a request without serving it: the names it asked for, an error code beside each.

An answer repeats what identifies a topic, a partition, a group in its request; where the two call it differently a row
of a table says so. Requests without effect are not in it: they are served, and their answers spoilt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages import (
    api_of,
    commits,
    configs,
    discovery,
    fetch,
    group_admin,
    produce,
    topics,
    transactions,
)


@dataclass(frozen=True, slots=True)
class Items:
    """Where a request has items, where its answer has them, of which kind they are there, and the items inside them."""

    asked: str
    answered: str
    kind: type[Any]
    inner: Items | None = None


def _partitions(kind: type[Any]) -> Items:
    return Items("partitions", "partitions", kind)


_ITEMS: Final = {
    "Produce": Items(
        "topic_data",
        "responses",
        produce.ProduceResponseTopic,
        Items("partition_data", "partition_responses", produce.ProduceResponsePartition),
    ),
    "Fetch": Items("topics", "responses", fetch.FetchResponseTopic, _partitions(fetch.FetchResponsePartition)),
    "ListOffsets": Items(
        "topics",
        "topics",
        discovery.ListOffsetsResponseTopic,
        _partitions(discovery.ListOffsetsResponsePartition),
    ),
    "OffsetCommit": Items(
        "topics",
        "topics",
        commits.OffsetCommitResponseTopic,
        _partitions(commits.OffsetCommitResponsePartition),
    ),
    "TxnOffsetCommit": Items(
        "topics",
        "topics",
        transactions.TxnOffsetCommitResponseTopic,
        _partitions(transactions.TxnOffsetCommitResponsePartition),
    ),
    "OffsetDelete": Items(
        "topics",
        "topics",
        group_admin.OffsetDeleteResponseTopic,
        _partitions(group_admin.OffsetDeleteResponsePartition),
    ),
    "DeleteRecords": Items(
        "topics",
        "topics",
        topics.DeleteRecordsResponseTopic,
        _partitions(topics.DeleteRecordsResponsePartition),
    ),
    "CreateTopics": Items("topics", "topics", topics.CreateTopicsResponseTopic),
    "CreatePartitions": Items("topics", "results", topics.CreatePartitionsResponseResult),
    "DeleteTopics": Items("topics", "responses", topics.DeleteTopicsResponseTopic),
    "DeleteGroups": Items("groups_names", "results", group_admin.DeleteGroupsResponseResult),
    "AlterConfigs": Items("resources", "responses", configs.AlterConfigsResponseTopic),
    "IncrementalAlterConfigs": Items("resources", "responses", configs.IncrementalAlterConfigsResponseTopic),
}

_AT_THE_TOP: Final = {
    *("ApiVersions", "SaslHandshake", "SaslAuthenticate", "InitProducerId", "AddOffsetsToTxn", "EndTxn"),
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ListGroups", "ConsumerGroupHeartbeat"),
}
"""APIs whose answers have one error code, and need nothing else beside it in any version."""

_IDENTITIES: Final = {
    "name": ("name",),
    "topic": ("topic",),
    "topic_id": ("topic_id",),
    "index": ("index",),
    "partition_index": ("partition_index", "partition"),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
}
"""Field of an answer's item: what the request's calls it."""

_NOWHERE: Final = ("base_offset", "high_watermark", "low_watermark")


def takes_no_answer(request: object) -> bool:
    """Whether the client of this request waits for no answer: a Produce with acks=0."""
    return isinstance(request, produce.ProduceRequest) and request.acks == 0


def refused(request: Any, code: int) -> object | None:
    """An answer of the request's shape with ``code`` in it; None for a request that has to be served for one."""
    pair = api_of(request.API.key)
    assert pair is not None
    if pair.name in _AT_THE_TOP:
        return _made(pair.response, error_code=code)
    if pair.name not in _ITEMS:
        return None
    items = _ITEMS[pair.name]
    asked = getattr(request, items.asked)
    if pair.name == "DeleteTopics":
        asked = asked or request.topic_names  # version 5 and older
    return _made(pair.response, **{items.answered: [_item(each, items, code) for each in asked]})


def _made(kind: type[Any], **fields: object) -> object:
    made: object = kind(**fields)
    return made


def _item(asked: Any, items: Items, code: int) -> Any:
    names = [field.name for field in dataclasses.fields(items.kind)]
    values: dict[str, Any] = {name: -1 for name in _NOWHERE if name in names}
    if isinstance(asked, str):
        values["group_id" if "group_id" in names else "name"] = asked
    for name in names:
        for theirs in _IDENTITIES.get(name, ()):
            if hasattr(asked, theirs):
                values[name] = getattr(asked, theirs)
    if items.inner is not None:
        inside: Sequence[Any] = getattr(asked, items.inner.asked)
        values[items.inner.answered] = [_item(each, items.inner, code) for each in inside]
    if "error_code" in names:
        values["error_code"] = code
    return items.kind(**values)
