"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: options of all that has some.

Those of topics can be changed, what the broker has for topics that do not say (`broker_changes`), and some of single
groups (`group_settings`); of the others `broker_options` and `group_options` say what can be said.
Source: Kafka protocol, DescribeConfigs v0-v4, AlterConfigs v0-v2, IncrementalAlterConfigs v0-v1 (KIP-339, KIP-226),
ListConfigResources v0-v1 (KIP-1142).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from penstock.errors import PenstockError
from penstock.protocols.kafka.account import OPTION
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.broker_changes import changeable, check_broker, set_broker_options, what_was_set
from penstock.protocols.kafka.front.broker_options import broker_options
from penstock.protocols.kafka.front.call import Call, is_internal
from penstock.protocols.kafka.front.config_values import Kind, Option, Source, parts_of
from penstock.protocols.kafka.front.described_options import Described, described
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.group_options import (
    account_row,
    client_metrics_options,
    client_metrics_refusal,
    group_options,
    group_refusal,
)
from penstock.protocols.kafka.front.group_settings import SETTABLE, check_group_options
from penstock.protocols.kafka.front.topic_options import OPTIONS, check_options
from penstock.protocols.kafka.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseTopic,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseTopic,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)
from penstock.seams.enode import TopicState

__all__ = ["alter_configs", "describe_configs", "incremental_alter_configs", "list_config_resources"]

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_STEPS = 50
_KINDS = {_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_LISTS = {_APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}


# Describe.


async def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Serve DescribeConfigs."""
    return DescribeConfigsResponse(results=[await _described(call, request, each) for each in request.resources])


async def _described(
    call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsRequestResource
) -> DescribeConfigsResponseResult:
    await call.pace.spend(1, _STEPS)
    try:
        rows = await _rows(call, resource.resource_type, resource.resource_name)
        if resource.resource_type == _GROUP and OPTION in (resource.configuration_keys or ()):
            rows += account_row(call, resource.resource_name)
    except PenstockError as error:
        return DescribeConfigsResponseResult(
            error_code=code_of(error),
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    await call.pace.spend(len(rows), len(rows) / 5)
    keys = set(resource.configuration_keys or ())
    # An empty list asks for everything too: old clients cannot say null.
    return DescribeConfigsResponseResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_row(row, request) for row in rows if not keys or row.name in keys],
    )


def _row(row: Described, request: DescribeConfigsRequest) -> DescribeConfigsResponseConfig:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResponseConfig(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_default=row.source is Source.DEFAULT,
        synonyms=[
            DescribeConfigsResponseSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms
        ],
        config_type=row.kind,
        documentation=row.meaning if request.include_documentation else None,
    )


async def _rows(call: Call, kind: int, name: str) -> list[Described]:
    if kind == _TOPIC:
        topic = await _topic(call, name)
        return described(topic.config, call.shared, await call.shared.enode.node_options())
    if kind == _BROKER:
        return await broker_options(call, name)
    if kind == _GROUP:
        return group_options(name, call.shared.options.newer_groups, call.shared.groups.newer.options_of(name))
    if kind == _METRICS:
        return client_metrics_options()
    raise _unknown(kind)


def _unknown(kind: int) -> Refused:
    if kind == _LOGGER:
        return Refused(ErrorCode.INVALID_REQUEST, "This node has no loggers whose level could be seen or set")
    return Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


async def list_config_resources(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Serve ListConfigResources: the node, its topics, groups with options of their own; before v1 client metrics only,
    of which there are none.
    """
    asked = {_METRICS} if call.version == 0 else set(request.resource_types) or _KINDS
    if not asked <= _KINDS:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = [(str(call.shared.node_id), _BROKER)] if _BROKER in asked else []
    if _TOPIC in asked:
        found += [(topic.name, _TOPIC) for topic in await call.shared.all_topics()]
    if _GROUP in asked:
        found += [(name, _GROUP) for name in call.shared.groups.newer.groups_with_options()]
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponseConfigResource(resource_name=name, resource_type=kind) for name, kind in found
        ]
    )


# Alter.


async def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Serve AlterConfigs: what is not named falls back to its default."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    answers = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        await call.pace.spend(1, _STEPS)
        wanted = {each.name: each.value for each in resource.configs}
        code, message = ErrorCode.NONE, None
        try:
            _check_resource(call, kind, name, wanted, times[kind, name])
            async with _held(call, kind, name):
                await _set(call, kind, name, wanted, request.validate_only)
        except PenstockError as error:
            code, message = code_of(error), error.message
        answers.append(
            AlterConfigsResponseTopic(error_code=code, error_message=message, resource_type=kind, resource_name=name)
        )
    return AlterConfigsResponse(responses=answers)


async def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Serve IncrementalAlterConfigs."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    answers = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        await call.pace.spend(1, _STEPS)
        code, message = ErrorCode.NONE, None
        try:
            takes_away = kind == _GROUP  # what is not there can always be taken away from one
            names = [each.name for each in resource.configs if not takes_away or each.config_operation != _DELETE]
            _check_resource(call, kind, name, names, times[kind, name])
            async with _held(call, kind, name):
                if kind == _TOPIC:
                    wanted = _changed((await _topic(call, name)).config, resource.configs, OPTIONS.get)
                elif kind == _GROUP:
                    wanted = _changed(call.shared.groups.newer.options_of(name), resource.configs, SETTABLE.get)
                else:
                    wanted = _changed(await what_was_set(call, name), resource.configs, changeable)
                await _set(call, kind, name, wanted, request.validate_only)
        except PenstockError as error:
            code, message = code_of(error), error.message
        answers.append(
            IncrementalAlterConfigsResponseTopic(
                error_code=code, error_message=message, resource_type=kind, resource_name=name
            )
        )
    return IncrementalAlterConfigsResponse(responses=answers)


def _held(call: Call, kind: int, name: str) -> AbstractAsyncContextManager[None]:
    """From the look at what was set to its replacement nobody else changes it."""
    return call.shared.services.locks.held(("config", name) if kind == _TOPIC else ("config",))


def _check_resource(call: Call, kind: int, name: str, options: Collection[str], times: int) -> None:
    """Whether options of this can be changed at all. Raises Refused."""
    if times > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    refusal: Refused | None = None
    if kind == _TOPIC:
        if not name:
            refusal = Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        elif is_internal(name):
            refusal = Refused(ErrorCode.INVALID_REQUEST, "an internal topic")
    elif kind == _BROKER:
        check_broker(call, name, options)
    elif kind == _GROUP:
        refusal = group_refusal(name, options)
    elif kind == _METRICS:
        refusal = client_metrics_refusal(options)
    else:
        refusal = _unknown(kind)
    if refusal is not None:
        raise refusal


def _changed(
    config: Mapping[str, str],
    changes: Sequence[IncrementalAlterConfigsRequestConfig],
    known: Callable[[str], Option | None],
) -> dict[str, str | None]:
    wanted: dict[str, str | None] = dict(config)
    if len({change.name for change in changes}) < len(changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        name, option = change.name, known(change.name)
        if change.config_operation == _DELETE:
            wanted.pop(name, None)
        elif change.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        elif change.config_operation == _SET:
            wanted[name] = change.value
        elif change.config_operation not in _LISTS:
            raise Refused(ErrorCode.INVALID_REQUEST, f"operation {change.config_operation} on {name}")
        elif option is None or option.kind is not Kind.LIST:
            verb = _LISTS[change.config_operation]
            raise Refused(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {name} because its type is not LIST.")
        else:
            now, named = parts_of(config.get(name, option.default)), parts_of(change.value)
            append = change.config_operation == _APPEND
            wanted[name] = ",".join(now + named if append else [each for each in now if each not in named])
    return wanted


async def _set(call: Call, kind: int, name: str, wanted: Mapping[str, str | None], validate_only: bool) -> None:
    """Replace what was set of a topic, of a group or of the brokers; of anything else nothing is to be."""
    if kind == _BROKER:
        await set_broker_options(call, name, wanted, validate_only)
    if kind == _GROUP:
        await _set_of_group(call, name, wanted, validate_only)
    if kind != _TOPIC:
        return
    await _topic(call, name)
    options = check_options(wanted, call.shared.enode.abilities_of(name))
    if not validate_only:
        await call.shared.enode.set_config(name, options)


async def _set_of_group(call: Call, name: str, wanted: Mapping[str, str | None], validate_only: bool) -> None:
    checked = check_group_options(wanted, call.shared.options.newer_groups)
    if not validate_only:
        await call.shared.groups.newer.set_options(name, checked)


async def _topic(call: Call, name: str) -> TopicState:
    topic = await call.shared.enode.topic(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic
