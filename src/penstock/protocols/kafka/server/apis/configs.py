"""Describing and altering options of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.interfaces.enode import TopicState
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.consumer_group import ConsumerGroupSettings
from penstock.protocols.kafka.server.consumer_group_service import SETTABLE, check_group_options
from penstock.protocols.kafka.server.front import Call
from penstock.protocols.kafka.server.limits import is_internal
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.server.topic_options import (
    BROKER_NAMES,
    EVERY_BROKER,
    OPTIONS,
    Described,
    Kind,
    Option,
    Said,
    Source,
    Synonym,
    canonical,
    check_options,
    described,
    of_the_broker,
    parts_of,
)
from penstock.protocols.kafka.wire import coordinator_admin
from penstock.protocols.kafka.wire.configs import (
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
from penstock.protocols.kafka.wire.coordinator_admin import REBALANCES_OPTION
from penstock.protocols.kafka.wire.stored_records import OffsetsLog

__all__ = [
    "account_row",
    "alter_configs",
    "broker_options",
    "changeable",
    "check_broker",
    "check_number",
    "client_metrics_options",
    "client_metrics_refusal",
    "describe_configs",
    "group_options",
    "group_refusal",
    "incremental_alter_configs",
    "list_config_resources",
    "set_broker_options",
    "what_was_set",
]

# Options of the node that can change while it runs: the defaults of topic options, by the broker's names for them.
#
# They are stored with the topics, and survive a restart. All other options are set when the node starts. Changes of
# those are refused with the texts of Apache Kafka 4.3.1, where most of them cannot be changed either. Source: KIP-226.

_TOPICS_NAMES: Mapping[str, str] = {theirs: name for name, theirs in BROKER_NAMES.items()}


def changeable(name: str) -> Option | None:
    """The option, if it is one of a broker's options that can be changed."""
    topics_name = _TOPICS_NAMES.get(name)
    return None if topics_name is None else OPTIONS[topics_name]


def check_broker(call: Call, name: str, options: Collection[str]) -> None:
    """Raises Refused if options of that broker cannot be changed."""
    if name != EVERY_BROKER:
        check_number(call, name, "Node id must be an integer, but it is", f"{call.shared.node_id},")
    fixed = [each for each in options if each not in _TOPICS_NAMES]
    if fixed:
        words = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise Refused(ErrorCode.INVALID_REQUEST, f"{words}; they are given when the node starts")


async def what_was_set(call: Call, name: str) -> Mapping[str, str]:
    """The options set for that broker, or for all brokers."""
    return (await call.shared.enode.node_options()).get(_scope(call, name), {})


def _scope(call: Call, name: str) -> str:
    return EVERY_BROKER if name == EVERY_BROKER else str(call.shared.node_id)


async def set_broker_options(call: Call, name: str, wanted: Mapping[str, str | None], validate_only: bool) -> None:
    """Replace the options of that broker, or of all brokers. Raises Refused."""
    checked = {}
    for each, value in wanted.items():
        option = changeable(each)
        if value is None or option is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {each}")
        checked[each] = canonical(each, option, value, ErrorCode.INVALID_REQUEST)
    enode = call.shared.enode
    known = {**await enode.node_options(), _scope(call, name): checked}
    said = {scope: options for scope, options in known.items() if options}
    in_force = {**said.get(EVERY_BROKER, {}), **said.get(str(call.shared.node_id), {})}
    defaults = check_options({_TOPICS_NAMES[each]: value for each, value in in_force.items()})
    if not validate_only:
        await enode.set_defaults(defaults, said)


def check_number(call: Call, name: str, no_number: str, wanted: str) -> None:
    """Check that this is the node's number. Raises Refused."""
    try:
        number = int(name)
    except ValueError:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{no_number}: {name}") from None
    if number != call.shared.node_id:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {wanted} but received {name}")


# Options of the node as Kafka clients see them: a broker's options that have an effect here.
#
# `changeable` decides which of them can change while the node runs. Source: Kafka documentation, "Broker Configs" and
# "Updating Broker Configs"; the texts are those of Apache Kafka 4.3.1.

_Row = tuple[str, Kind, object, object, str]
"""Name, type, value, Kafka's default (None if it has none), meaning."""


async def broker_options(call: Call, name: str) -> list[Described]:
    """The effective options of the broker with that number, or the options set for all brokers. Raises Refused."""
    said = await call.shared.enode.node_options()
    if name == EVERY_BROKER:
        return [each for row in _of_topics(call, said) for each in _of_every_broker(row)]
    check_number(call, name, "Broker id must be an integer, but it is", f"{call.shared.node_id} or empty string,")
    sizes = call.shared.enode.abilities.sizes
    folder = (await call.shared.enode.room()).path if sizes else ""
    offsets_topic = await call.shared.enode.topic(OffsetsLog.topic)
    fixed = (
        *_of_the_node(call, folder),
        *_of_groups(call, offsets_topic),
        *_of_transactions(call),
    )
    return sorted([*map(_described_broker_option, fixed), *_of_topics(call, said)], key=lambda row: row.name)


def _of_every_broker(row: Described) -> Iterator[Described]:
    """The row with the value that is set for all brokers, if there is one."""
    for each in row.synonyms:
        if each.source is Source.DYNAMIC_DEFAULT_BROKER:
            yield row._replace(value=each.value, source=each.source, synonyms=(each,))


def _described_broker_option(row: _Row) -> Described:
    name, kind, value, default, meaning = row
    text, usual = (str(each).lower() if isinstance(each, bool) else str(each) for each in (value, default))
    synonyms = [] if default is None else [Synonym(name, usual, Source.DEFAULT)]
    if default is None or text != usual:
        synonyms.insert(0, Synonym(name, text, Source.STATIC_BROKER))
    return Described(name, text, kind, synonyms[0].source, tuple(synonyms), meaning, read_only=True)


def _of_the_node(call: Call, folder: str) -> Iterator[_Row]:
    shared, options = call.shared, call.shared.options
    at = f"PLAINTEXT://{shared.advertised}"
    yield "advertised.listeners", Kind.LIST, at, None, "The address that clients connect to."
    yield "auto.create.topics.enable", Kind.BOOLEAN, options.auto_create_topics, True, "A topic asked for is made."
    yield "broker.id", Kind.INT, shared.node_id, -1, "This node's number."
    yield "default.replication.factor", Kind.INT, 1, 1, "Replicas of a topic whose creator does not say."
    yield "delete.topic.enable", Kind.BOOLEAN, True, True, "Whether topics can be deleted."
    yield "fetch.max.bytes", Kind.INT, options.fetch_max_bytes, 57_671_680, "The largest answer to a fetch."
    yield "listeners", Kind.LIST, at, "PLAINTEXT://:9092", "Where the node listens."
    yield "log.dirs", Kind.LIST, folder, None, "Where the logs lie."
    slots = "max.incremental.fetch.session.cache.slots"
    yield slots, Kind.INT, options.fetch_sessions, 1_000, "Fetch sessions that are kept at once."
    yield "node.id", Kind.INT, shared.node_id, None, "This node's number."
    yield "num.partitions", Kind.INT, options.default_partitions, 1, "Partitions of a topic whose creator does not say."
    yield "process.roles", Kind.LIST, "broker,controller", None, "What this node does in its cluster: everything."


def _of_groups(call: Call, topic: TopicState | None) -> Iterator[_Row]:
    options, groups = call.shared.options, call.shared.options.groups
    wait, least = groups.initial_rebalance_delay_ms, groups.min_session_timeout_ms
    protocols = "group.coordinator.rebalance.protocols"
    yield protocols, Kind.LIST, "classic,consumer", "classic,consumer,streams", "The kinds of groups that are served."
    yield from _of_newer_groups(call)
    yield "group.initial.rebalance.delay.ms", Kind.INT, wait, 3_000, "How long a new group waits for more members."
    yield "group.max.session.timeout.ms", Kind.INT, groups.max_session_timeout_ms, 1_800_000, "Of a group's member."
    yield "group.max.size", Kind.INT, groups.max_size, 2**31 - 1, "Members of one group."
    yield "group.min.session.timeout.ms", Kind.INT, least, 6_000, "Of a group's member."
    yield (
        "offset.metadata.max.bytes",
        Kind.INT,
        options.offset_metadata_max_bytes,
        4_096,
        "Of one committed offset.",
    )
    every = options.offsets_check_interval_ms
    yield "offsets.retention.check.interval.ms", Kind.LONG, every, 600_000, "How often old offsets are looked for."
    minutes = options.offsets_retention_ms // 60_000
    yield "offsets.retention.minutes", Kind.INT, minutes, 10_080, "When an empty group's offsets are forgotten."
    if topic is not None:
        yield "offsets.topic.num.partitions", Kind.INT, topic.partitions, 50, "Of the topic with committed offsets."
    yield "offsets.topic.replication.factor", Kind.SHORT, 1, 3, "Of the topic with committed offsets."


def _of_newer_groups(call: Call) -> Iterator[_Row]:
    newer, begins = call.shared.options.newer_groups, "group.consumer"
    session, interval = "When a member counts as gone.", "How often members are to be heard of."
    bound = "Of what can be set for a single group."
    yield f"{begins}.heartbeat.interval.ms", Kind.INT, newer.heartbeat_interval_ms, 5_000, interval
    yield f"{begins}.max.heartbeat.interval.ms", Kind.INT, newer.max_heartbeat_interval_ms, 15_000, bound
    yield f"{begins}.max.session.timeout.ms", Kind.INT, newer.max_session_timeout_ms, 60_000, bound
    policy = "Which way a group with members may go over."
    yield f"{begins}.migration.policy", Kind.STRING, newer.migration_policy, "bidirectional", policy
    yield f"{begins}.min.heartbeat.interval.ms", Kind.INT, newer.min_heartbeat_interval_ms, 5_000, bound
    yield f"{begins}.min.session.timeout.ms", Kind.INT, newer.min_session_timeout_ms, 45_000, bound
    yield f"{begins}.session.timeout.ms", Kind.INT, newer.session_timeout_ms, 45_000, session


def _of_transactions(call: Call) -> Iterator[_Row]:
    options = call.shared.options
    expires, most = options.transactional_id_expiration_ms, options.transaction_max_timeout_ms
    yield "transaction.max.timeout.ms", Kind.INT, most, 900_000, "How long a transaction may be open."
    yield "transaction.state.log.min.isr", Kind.INT, 1, 2, "Of the topic with transactional ids."
    count = options.transaction_partitions
    yield "transaction.state.log.num.partitions", Kind.INT, count, 50, "Of the topic with transactional ids."
    yield "transaction.state.log.replication.factor", Kind.SHORT, 1, 3, "Of the topic with transactional ids."
    yield "transactional.id.expiration.ms", Kind.INT, expires, 604_800_000, "When an unused transactional id goes."


def _of_topics(call: Call, said: Said) -> Iterator[Described]:
    """The defaults of topic options, which can be changed."""
    for name, theirs in BROKER_NAMES.items():
        option = OPTIONS[name]
        synonyms = tuple(of_the_broker(name, call.shared.node_id, call.shared.options, said))
        meaning = f"Of a topic that does not say. {option.meaning}"
        mine = next((each for each in synonyms if each.name == theirs), None)
        source = Source.DEFAULT if mine is None else mine.source
        yield Described(theirs, mine and mine.value, option.kind, source, synonyms, meaning)
        for other in synonyms:
            if other.name != theirs:  # the same default in another unit, from the node's start
                yield Described(other.name, other.value, Kind.INT, other.source, (other,), meaning, read_only=True)


# Options of groups and of client metrics as Kafka clients see them; most of them are only described.
#
# Only options that the node obeys can be set (`SETTABLE`). The others belong to group protocols and metrics that it
# does not serve: an option must not be accepted if it has no effect. Source: Kafka documentation, "Group Configs";
# names, types and defaults are those of 4.4.0.
class _Option(NamedTuple):
    kind: Kind
    default: str
    synonym: str = ""
    """The broker's option that gives the default; empty if that is named ``group.`` plus this option's name."""


_INT: Final = Kind.INT
_GROUPS: Final[Mapping[str, _Option]] = {
    "consumer.assignment.interval.ms": _Option(_INT, "1000"),
    "consumer.heartbeat.interval.ms": _Option(_INT, "5000"),
    "consumer.session.timeout.ms": _Option(_INT, "45000"),
    "errors.deadletterqueue.copy.record.enable": _Option(
        Kind.BOOLEAN, "false", "errors.deadletterqueue.copy.record.enable"
    ),
    "errors.deadletterqueue.topic.name": _Option(Kind.STRING, "", "errors.deadletterqueue.topic.name"),
    "share.assignment.interval.ms": _Option(_INT, "1000"),
    "share.auto.offset.reset": _Option(Kind.STRING, "latest", "share.auto.offset.reset"),
    "share.delivery.count.limit": _Option(_INT, "5"),
    "share.heartbeat.interval.ms": _Option(_INT, "5000"),
    "share.isolation.level": _Option(Kind.STRING, "read_uncommitted", "share.isolation.level"),
    "share.partition.max.record.locks": _Option(_INT, "2000"),
    "share.record.lock.duration.ms": _Option(_INT, "30000"),
    "share.renew.acknowledge.enable": _Option(Kind.BOOLEAN, "true", "share.renew.acknowledge.enable"),
    "share.session.timeout.ms": _Option(_INT, "45000"),
    "streams.assignment.interval.ms": _Option(_INT, "1000"),
    "streams.assignor.name": _Option(Kind.STRING, "sticky", "group.streams.assignors"),
    "streams.heartbeat.interval.ms": _Option(_INT, "5000"),
    "streams.initial.rebalance.delay.ms": _Option(_INT, "3000"),
    "streams.num.standby.replicas": _Option(_INT, "0"),
    "streams.rack.aware.assignment.tags": _Option(Kind.LIST, ""),
    "streams.session.timeout.ms": _Option(_INT, "45000"),
}
_METRICS_OPTIONS: Final = {"interval.ms": (_INT, "300000"), "match": (Kind.LIST, ""), "metrics": (Kind.LIST, "")}


def group_options(name: str, newer: ConsumerGroupSettings, own: Mapping[str, str]) -> list[Described]:
    """The effective options of a group: its ``own``, then the node's for KIP-848 groups, then Kafka's defaults.

    Raises Refused.
    """
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    served = {
        "consumer.assignment.interval.ms": "0",
        "consumer.heartbeat.interval.ms": str(newer.heartbeat_interval_ms),
        "consumer.session.timeout.ms": str(newer.session_timeout_ms),
    }
    rows = [_described_group_option(each, option, served.get(each)) for each, option in _GROUPS.items()]
    return [_said(row, own[row.name]) if row.name in own else row for row in rows]


def _said(row: Described, value: str) -> Described:
    synonyms = (Synonym(row.name, value, Source.GROUP), *row.synonyms)
    return row._replace(value=value, source=Source.GROUP, synonyms=synonyms)


def _described_group_option(name: str, option: _Option, served: str | None) -> Described:
    theirs = option.synonym or f"group.{name}"
    kind = _protocol(name)
    if served is None:
        meaning = f"Of {kind} groups of Kafka 4, which this node does not serve."
    else:
        meaning = "Of groups of group.protocol=consumer (KIP-848)."
    value = option.default if served is None else served
    default = Synonym(theirs, option.default, Source.DEFAULT)
    if value == option.default:
        return Described(name, value, option.kind, Source.DEFAULT, (default,), meaning)
    own = Synonym(theirs, value, Source.STATIC_BROKER)
    return Described(name, value, option.kind, Source.STATIC_BROKER, (own, default), meaning)


def _protocol(name: str) -> str:
    """The group protocol that an option belongs to."""
    return "share" if name.startswith("errors.") else name.partition(".")[0]


def account_row(call: Call, name: str) -> list[Described]:
    """The group's rebalance history, if there is one. Only our own client requests this option, by its name."""
    groups = call.shared.groups
    group = groups.newer.coordinator.group(name) or groups.coordinator.group(name)
    if group is None or call.version < coordinator_admin.REBALANCES_SINCE:
        return []
    meaning = "The group's last rebalances, as JSON."
    text = coordinator_admin.written_rebalances(group.account.rebalances())
    return [
        Described(coordinator_admin.REBALANCES_OPTION, text, Kind.STRING, Source.DEFAULT, (), meaning, read_only=True)
    ]


def client_metrics_options() -> list[Described]:
    """The effective options of client metrics."""
    meaning = "Of metrics that clients send, which this node does not take."
    return [
        Described(name, default, kind, Source.DEFAULT, (), meaning)
        for name, (kind, default) in _METRICS_OPTIONS.items()
    ]


def group_refusal(name: str, options: Collection[str]) -> Refused | None:
    """The reason why these options of a group cannot be changed; None if they can."""
    try:
        _check_group(name)
    except Refused as refused:
        return refused
    for each in options:
        if each in SETTABLE:
            continue
        if each not in _GROUPS:
            return Refused(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {each}")
        kind = _protocol(each)
        if kind == "consumer":
            text = f"{each} is 0 for all groups of this node but large ones, which are shared out once a second"
            return Refused(ErrorCode.INVALID_CONFIG, text)
        return Refused(ErrorCode.INVALID_CONFIG, f"{each} is for {kind} groups, which this node does not serve")
    return None


def client_metrics_refusal(options: Collection[str]) -> Refused | None:
    """The reason why these options of client metrics cannot be changed; None if ``options`` is empty."""
    for each in options:
        if each not in _METRICS_OPTIONS:
            return Refused(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {each}")
        return Refused(ErrorCode.INVALID_CONFIG, f"{each} is for metrics of clients, which this node does not take")
    return None


def _check_group(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


# DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.
#
# Options of topics, the broker's defaults for them, and some options of single groups can be changed; others are only
# described. Source: Kafka protocol, DescribeConfigs v0-v4, AlterConfigs v0-v2, IncrementalAlterConfigs v0-v1 (KIP-339,
# KIP-226), ListConfigResources v0-v1 (KIP-1142).

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_STEPS = 50
_KINDS = {_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_LISTS = {_APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}


# Describe.


async def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Serve DescribeConfigs."""
    return DescribeConfigsResponse(
        results=[await _described_resource(call, request, each) for each in request.resources]
    )


async def _described_resource(
    call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsRequestResource
) -> DescribeConfigsResponseResult:
    await call.pace.spend(1, _STEPS)
    try:
        rows = await _rows(call, resource.resource_type, resource.resource_name)
        if resource.resource_type == _GROUP and REBALANCES_OPTION in (resource.configuration_keys or ()):
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
    # An empty list asks for everything, too: old clients have no null.
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
        return described(topic.config, call.shared.node_id, call.shared.options, await call.shared.enode.node_options())
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
    """Serve ListConfigResources: the node, its topics, and groups with options of their own.

    Before v1 it lists client metrics only, of which there are none.
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
    """Serve AlterConfigs: options that are not named fall back to their defaults."""
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
            takes_away = kind == _GROUP  # a group's option can be removed even if it does not exist
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
    """Keeps other requests from changing the options between reading and replacing them."""
    return call.shared.services.locks.held(("config", name) if kind == _TOPIC else ("config",))


def _check_resource(call: Call, kind: int, name: str, options: Collection[str], times: int) -> None:
    """Check that the options of this resource can be changed at all. Raises Refused."""
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
    """Replace the options of a topic, a group or the brokers; other resources have none to change."""
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
