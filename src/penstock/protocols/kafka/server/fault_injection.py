"""Fault injection for tests: error responses in Kafka's format. Nothing else uses this module."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces import Frame, Pieces, joined
from penstock.interfaces.front import Handle, check_name
from penstock.protocols.kafka.errors import ROWS, code_of
from penstock.protocols.kafka.wire import configs, coordinator_admin, fetch, metadata, offsets, produce, topics
from penstock.protocols.kafka.wire.declarations import Message, all_fields
from penstock.protocols.kafka.wire.framing import api_of, known, read_header, read_request, read_response, response


# Answers that refuse a request without serving it: the names in the request, each with an error code.
#
# A response repeats the topic, partition or group of its request; a table maps the field names that differ. Requests
# without effects are not in it: they are served, and the codes in their responses replaced.
class Items(Struct, frozen=True):
    """The fields of a request's and its response's items, the response's item type, and the items inside them."""

    asked: str
    answered: str
    kind: type
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
        metadata.ListOffsetsResponseTopic,
        _partitions(metadata.ListOffsetsResponsePartition),
    ),
    "OffsetCommit": Items(
        "topics",
        "topics",
        offsets.OffsetCommitResponseTopic,
        _partitions(offsets.OffsetCommitResponsePartition),
    ),
    "TxnOffsetCommit": Items(
        "topics",
        "topics",
        produce.TxnOffsetCommitResponseTopic,
        _partitions(produce.TxnOffsetCommitResponsePartition),
    ),
    "OffsetDelete": Items(
        "topics",
        "topics",
        coordinator_admin.OffsetDeleteResponseTopic,
        _partitions(coordinator_admin.OffsetDeleteResponsePartition),
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
    "DeleteGroups": Items("groups_names", "results", coordinator_admin.DeleteGroupsResponseResult),
    "AlterConfigs": Items("resources", "responses", configs.AlterConfigsResponseTopic),
    "IncrementalAlterConfigs": Items("resources", "responses", configs.IncrementalAlterConfigsResponseTopic),
}

_AT_THE_TOP: Final = {
    *("ApiVersions", "SaslHandshake", "SaslAuthenticate", "InitProducerId", "AddOffsetsToTxn", "EndTxn"),
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ListGroups", "ConsumerGroupHeartbeat"),
}
"""APIs whose answers need nothing but one error code, in any version."""

_IDENTITIES: Final = {
    "name": ("name",),
    "topic": ("topic",),
    "topic_id": ("topic_id",),
    "index": ("index",),
    "partition_index": ("partition_index", "partition"),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
}
"""Field of a response's item: its possible names in the request."""

_NOWHERE: Final = ("base_offset", "high_watermark", "low_watermark")


def takes_no_answer(request: object) -> bool:
    """Whether the request has no response: a Produce with acks=0."""
    return isinstance(request, produce.ProduceRequest) and request.acks == 0


def refused(request: Any, code: int) -> object | None:
    """A response that refuses the request with ``code``; None if the request must be served to get a response."""
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
    names = [field.name for field in all_fields(items.kind)]
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


# The wording for fault injection: reads a request's API, and puts an error code into every place of its response.
_APIS: Final = {pair.name for key in known() if (pair := api_of(key)) is not None}
_ERRORS: Final = {row.name for row in ROWS.values() if row.code}
_CODES: Final = ("error_code", "partition_error_code")
_API_VERSIONS: Final = 18
_UNSUPPORTED_VERSION: Final = 35


class KafkaWording:
    """The Kafka part of fault injection."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name that Kafka does not have."""
        if api:
            check_name("Kafka", "API", api, _APIS)
        if error:
            check_name("Kafka", "error", error, _ERRORS)

    def api_of(self, frame: Frame) -> str:
        """The API's name; "" for a request that cannot be read."""
        try:
            header, _ = read_header(frame.body)
        except ProtocolViolation:
            return ""
        pair = api_of(header.api_key)
        return pair.name if pair else ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """A response with ``error`` and no effect."""
        header, request = read_request(frame.body)
        code = code_of(error)
        if takes_no_answer(request):
            return None
        if (header.api_key, code) == (_API_VERSIONS, _UNSUPPORTED_VERSION):
            # KIP-511: answered in version 0, which every client can read.
            return response(refused(request, code), 0, header.correlation_id)
        answer = refused(request, code)
        if answer is not None:
            return response(answer, header.api_version, header.correlation_id)
        true = await handle(frame)
        return None if true is None else self.spoilt(frame, true, error)

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """The true response with ``error`` in place of all its codes."""
        header, _ = read_header(frame.body)
        pair = api_of(header.api_key)
        if pair is None:
            raise UsageError(f"API {header.api_key} is unknown")
        answered: object = read_response(pair.response, header.api_version, joined(answer)[4:])
        return response(
            _with_code(answered, header.api_version, code_of(error)), header.api_version, header.correlation_id
        )


@functools.cache
def _error_fields(message: type, version: int) -> frozenset[str]:
    """The message's own error codes that the version has."""
    return frozenset(
        field.name for field in all_fields(message) if field.name in _CODES and field.wire.present(version)
    )


def _with_code(message: Any, version: int, code: int) -> Any:
    """The message with every error code in it replaced."""
    changes: dict[str, Any] = dict.fromkeys(_error_fields(message.__class__, version), code)
    for field in all_fields(message.__class__):
        value = getattr(message, field.name)
        if isinstance(value, Message):
            changes[field.name] = _with_code(value, version, code)
        elif isinstance(value, Sequence) and value and isinstance(value[0], Message):
            changes[field.name] = [_with_code(each, version, code) for each in value]
    return replace(message, **changes)
