"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: topics' options; the node's own are read-only.

Source: Kafka protocol, DescribeConfigs v0-v4, AlterConfigs v0-v2, IncrementalAlterConfigs v0-v1 (KIP-339, KIP-226).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import PenstockError
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import INTERNAL_TOPICS, Call
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.topic_options import OPTIONS, Described, Kind, Source, check_options, described
from penstock.protocols.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseTopic,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseTopic,
)
from penstock.protocols.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)
from penstock.seams.node import TopicState

__all__ = ["alter_configs", "describe_configs", "incremental_alter_configs"]

_TOPIC, _BROKER = 2, 4
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


# Describe.


async def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Serve DescribeConfigs."""
    return DescribeConfigsResponse(results=[_described(call, request, each) for each in request.resources])


def _described(
    call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsRequestResource
) -> DescribeConfigsResponseResult:
    try:
        if resource.resource_type == _TOPIC:
            rows = described(_topic(call, resource.resource_name).config, call.shared.options)
        else:
            rows = _broker_rows(call, resource.resource_type, resource.resource_name)
    except PenstockError as error:
        return DescribeConfigsResponseResult(
            error_code=code_of(error),
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    keys = resource.configuration_keys
    # An empty list asks for everything too: old clients cannot say null.
    return DescribeConfigsResponseResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_row(row, request.include_synonyms) for row in rows if not keys or row.name in keys],
    )


def _row(row: Described, synonyms: bool) -> DescribeConfigsResponseConfig:
    known = []
    if synonyms and row.source is Source.TOPIC:
        known.append(DescribeConfigsResponseSynonym(name=row.name, value=row.value, source=Source.TOPIC))
    if synonyms:
        known.append(DescribeConfigsResponseSynonym(name=row.name, value=row.default, source=Source.DEFAULT))
    return DescribeConfigsResponseConfig(
        name=row.name,
        value=row.value,
        read_only=row.source is Source.STATIC_BROKER,
        config_source=row.source,
        is_default=row.source is Source.DEFAULT,
        synonyms=known,
        config_type=row.kind,
        documentation=None,
    )


def _broker_rows(call: Call, kind: int, name: str) -> list[Described]:
    if kind != _BROKER:
        raise Refused(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no options here")
    if name not in ("", str(call.shared.node_id)):
        raise Refused(ErrorCode.INVALID_REQUEST, f"there is no broker {name}")
    options = call.shared.options
    values = {
        "auto.create.topics.enable": (Kind.BOOLEAN, str(options.auto_create_topics).lower()),
        "default.replication.factor": (Kind.INT, "1"),
        "fetch.max.bytes": (Kind.INT, str(options.fetch_max_bytes)),
        "group.initial.rebalance.delay.ms": (Kind.INT, str(options.groups.initial_rebalance_delay_ms)),
        "group.max.session.timeout.ms": (Kind.INT, str(options.groups.max_session_timeout_ms)),
        "group.min.session.timeout.ms": (Kind.INT, str(options.groups.min_session_timeout_ms)),
        "message.max.bytes": (Kind.INT, str(options.max_message_bytes)),
        "node.id": (Kind.INT, str(call.shared.node_id)),
        "num.partitions": (Kind.INT, str(options.default_partitions)),
        "offsets.retention.minutes": (Kind.INT, str(options.offsets_retention_ms // 60_000)),
    }
    if not name:
        return []  # what is set for all brokers together: nothing
    return [Described(key, value, each, Source.STATIC_BROKER, value) for key, (each, value) in values.items()]


# Alter.


async def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Serve AlterConfigs: what is not named falls back to its default."""
    answers = []
    for resource in request.resources:
        wanted = {each.name: each.value for each in resource.configs}
        kind, name = resource.resource_type, resource.resource_name
        code, message = await _replace(call, kind, name, wanted, request.validate_only)
        answers.append(
            AlterConfigsResponseTopic(error_code=code, error_message=message, resource_type=kind, resource_name=name)
        )
    return AlterConfigsResponse(responses=answers)


async def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Serve IncrementalAlterConfigs."""
    answers = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        topic = call.shared.enode.topic(name) if kind == _TOPIC else None
        code, message = ErrorCode.NONE, None
        try:
            wanted = _changed(topic.config if topic else {}, resource.configs)
        except Refused as error:
            code, message = error.code, error.message
        else:
            code, message = await _replace(call, kind, name, wanted, request.validate_only)
        answers.append(
            IncrementalAlterConfigsResponseTopic(
                error_code=code, error_message=message, resource_type=kind, resource_name=name
            )
        )
    return IncrementalAlterConfigsResponse(responses=answers)


def _changed(
    config: Mapping[str, str], changes: Sequence[IncrementalAlterConfigsRequestConfig]
) -> dict[str, str | None]:
    wanted: dict[str, str | None] = dict(config)
    for change in changes:
        option = OPTIONS.get(change.name)
        if option is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {change.name}")
        if change.config_operation == _DELETE:
            wanted.pop(change.name, None)
        elif change.config_operation == _SET:
            wanted[change.name] = change.value
        elif change.config_operation in (_APPEND, _SUBTRACT) and option.kind is Kind.LIST:
            now = (config.get(change.name) or option.default).split(",")
            named = (change.value or "").split(",")
            if change.config_operation == _APPEND:
                kept = now + [each for each in named if each not in now]
            else:
                kept = [each for each in now if each not in named]
            wanted[change.name] = ",".join(kept)
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"operation {change.config_operation} on {change.name}")
    return wanted


async def _replace(
    call: Call, kind: int, name: str, wanted: Mapping[str, str | None], validate_only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        if kind != _TOPIC:
            raise Refused(ErrorCode.INVALID_REQUEST, "only the options of topics can be changed")
        if name in INTERNAL_TOPICS:
            raise Refused(ErrorCode.INVALID_REQUEST, "an internal topic")
        _topic(call, name)
        options = check_options(wanted)
        if not validate_only:
            await call.shared.enode.set_config(name, options)
    except PenstockError as error:
        return code_of(error), error.message
    return ErrorCode.NONE, None


def _topic(call: Call, name: str) -> TopicState:
    topic = call.shared.enode.topic(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
    return topic
