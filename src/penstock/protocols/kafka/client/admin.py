"""KafkaAdmin: administration of topics and groups.

Groups are listed from every broker and described by their coordinators, in requests of bounded size. Topic changes go
to the controller; a call returns when metadata shows the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError
from penstock.interfaces.admin import (
    AdminClient,
    GroupDescription,
    GroupDescriptions,
    GroupListing,
    GroupListings,
    GroupMember,
    NewTopic,
    Rebalance,
    TopicSetting,
)
from penstock.interfaces.channel import Retry
from penstock.model import Committed, Node, Partition, TopicInfo
from penstock.protocols.kafka.client.assignors import partitions_assigned
from penstock.protocols.kafka.client.cluster import Cluster, by_topic, on_leaders
from penstock.protocols.kafka.client.connection import ByVersion, only
from penstock.protocols.kafka.client.coordinator import Coordinator, Kind, commit, committed, coordinators
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.coordinator_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from penstock.protocols.kafka.wire.configs import DescribeConfigsResponseSynonym
    from penstock.protocols.kafka.wire.groups import (
        ConsumerGroupDescribeResponseGroup,
        ConsumerGroupDescribeResponseMember,
        ConsumerGroupDescribeResponseTopicPartition,
    )

__all__ = [
    "KafkaAdmin",
    "add_partitions",
    "alter_topic_config",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_group",
    "describe_groups",
    "describe_topic_config",
    "list_groups",
    "rebalances",
    "topic_config",
]

# Listing groups from every broker; the rebalance history that a penstock node keeps of them.
#
# Source: Kafka protocol guide, ListGroups v0-v5.

_INVALID_REQUEST: Final = 42
_GROUP_RESOURCE: Final = 32


async def list_groups(cluster: Cluster) -> GroupListings:
    """The groups of all brokers, by name, and the brokers that did not answer.

    The list of brokers is refreshed after each failure. Raises a broker's refusal, or the last error if no broker
    answers.
    """
    options = cluster.calls.options
    retry = Retry(cluster.calls.channel, options)
    silent = Retry(cluster.calls.channel, options, timeout_ms=options.silent_node_patience_ms)
    found: dict[str, list[GroupListing]] = {}
    while True:
        left = [node for node in await cluster.nodes() if node.name not in found]
        answers = await cluster.calls.channel.gather([_listed(cluster, node) for node in left])
        failed = {}
        for node, answer in zip(left, answers, strict=True):
            if isinstance(answer, PenstockError):
                failed[node] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[node.name] = answer
        try:
            for error in failed.values():
                if isinstance(error, ServerError):
                    await retry.after(error)
            if failed and not any(isinstance(error, ServerError) for error in failed.values()):
                await silent.pause(next(iter(failed.values())))
        except (ConnectionLost, ProtocolViolation, RequestTimeout):
            if not found:
                raise
            return _all_of(found, failed)
        if not failed:
            return _all_of(found, ())


async def _listed(cluster: Cluster, node: Node) -> list[GroupListing]:
    within_s = cluster.calls.options.silent_node_patience_ms / 1_000
    answer = await cluster.calls.call(node.endpoint, ListGroupsRequest(), ListGroupsResponse, within_s=within_s)
    if answer.error_code != NONE:
        raise error_for(answer.error_code, "listing groups failed", node=str(node.endpoint))
    return [
        GroupListing(each.group_id, each.group_state, each.protocol_type, each.group_type.lower())
        for each in answer.groups
    ]


def _all_of(found: Mapping[str, Iterable[GroupListing]], silent: Iterable[Node]) -> GroupListings:
    listed = (each for groups in found.values() for each in groups)
    return GroupListings(sorted(listed, key=lambda listing: listing.group), sorted(silent, key=lambda node: node.name))


async def rebalances(coordinator: Coordinator) -> list[Rebalance] | None:
    """The coordinator's rebalance history; None if it keeps none. Raises ServerError, ProtocolViolation."""
    # Imported here: few programs need this, and every program that lists groups imports this module.
    from penstock.protocols.kafka.wire import coordinator_admin
    from penstock.protocols.kafka.wire.configs import (
        DescribeConfigsRequest,
        DescribeConfigsRequestResource,
        DescribeConfigsResponse,
    )

    what = f"asking how group {coordinator.key!r} was rebalanced failed"
    resource = DescribeConfigsRequestResource(
        resource_type=_GROUP_RESOURCE,
        resource_name=coordinator.key,
        configuration_keys=[coordinator_admin.REBALANCES_OPTION],
    )
    result = only(
        (await coordinator.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)).results, what
    )
    if result.error_code == _INVALID_REQUEST:
        return None  # a broker from before groups had options
    if result.error_code != NONE:
        raise error_for(result.error_code, what, detail=result.error_message)
    text = next((each.value for each in result.configs if each.name == coordinator_admin.REBALANCES_OPTION), None)
    return None if text is None else coordinator_admin.read_rebalances(text)


# Describing groups: each coordinator is asked for all of its groups together, in requests of bounded size.
#
# A failure of one group does not affect the others. A group is described as a classic group first, then as a KIP-848
# group, because those are "Dead" in DescribeGroups. Source: Kafka protocol guide, FindCoordinator v0-v6 (several keys
# from v4, KIP-699), DescribeGroups v0-v6, ConsumerGroupDescribe v0-v1 (KIP-848, KIP-1099).

T = TypeVar("T")
Answer = TypeVar("Answer", DescribeGroupsResponseGroup, "ConsumerGroupDescribeResponseGroup")
Descriptions = dict[str, GroupDescription | PenstockError]
"""By group."""

_AT_ONCE: Final = 200
"""Groups per request: enough that round trips do not matter, few enough that a response does not block a node."""

_GROUP_ID_NOT_FOUND: Final = 69
_UNSUPPORTED_VERSION: Final = 35
_DEAD: Final = "Dead"
_CLASSIC, _CONSUMER = "classic", "consumer"
_SPEAKS: Final = {0: False, 1: True}
"""A member's type in ConsumerGroupDescribe: whether it uses the newer protocol itself (KIP-1099); -1 is unknown."""


async def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """One group; ``state`` is "Dead" if it does not exist. Raises ServerError, ConnectionLost."""
    result = await describe_groups(cluster, [group])
    for error in result.failed.values():
        raise error
    return result[group]


async def describe_groups(cluster: Cluster, groups: Collection[str]) -> GroupDescriptions:
    """Describe all groups; ``failed`` has those that their coordinator refuses, or that no coordinator answers in time.

    Raises ConnectionLost, RequestTimeout if the whole cluster does not answer.
    """
    retry = Retry(cluster.calls.channel, cluster.calls.options)
    done: Descriptions = {}
    left = list(dict.fromkeys(groups))
    while left:
        result = await _round(cluster, left)
        again = {group: each for group, each in result.items() if isinstance(each, PenstockError) and each.retriable}
        await _wait(retry, again)
        done |= {group: each for group, each in result.items() if group not in again}
        left = [*again]
    described = GroupDescriptions()
    for group in dict.fromkeys(groups):
        described.put(group, done[group])
    return described


async def _wait(retry: Retry, again: dict[str, PenstockError]) -> None:
    """Pause once; groups whose errors are not worth another attempt are removed from ``again``."""
    while again:
        error = next(iter(again.values()))
        try:
            await retry.after(error)
        except PenstockError:
            for group in [group for group, each in again.items() if _alike(each, error)]:
                del again[group]
        else:
            return


def _alike(one: PenstockError, other: PenstockError) -> bool:
    return type(one) is type(other) and getattr(one, "code", None) == getattr(other, "code", None)


async def _round(cluster: Cluster, groups: Sequence[str]) -> Descriptions:
    """Ask each coordinator once."""
    at: dict[Node, list[str]] = {}
    result: Descriptions = {}
    for group, found in (await coordinators(cluster, groups, Kind.GROUP)).items():
        if isinstance(found, PenstockError):
            result[group] = found
        else:
            at.setdefault(found, []).append(group)
    asked = [_at_node(cluster, node, here) for node, here in at.items()]
    for answered in await cluster.calls.channel.gather(asked):
        if isinstance(answered, BaseException):
            raise answered
        result |= answered
    return result


async def _at_node(cluster: Cluster, node: Node, groups: Sequence[str]) -> Descriptions:
    """Descriptions from one coordinator; after an error of the whole request, all remaining groups share it."""
    result: Descriptions = {}
    for first in range(0, len(groups), _AT_ONCE):
        try:
            result |= await _of_both_kinds(cluster, node, groups[first : first + _AT_ONCE])
        except PenstockError as error:
            return result | dict.fromkeys(groups[first:], error)
    return result


async def _of_both_kinds(cluster: Cluster, node: Node, groups: Sequence[str]) -> Descriptions:
    answer = await _ask(cluster, node, DescribeGroupsRequest(groups=groups), DescribeGroupsResponse)
    result = {group: _classic(each, node) for group, each in _matched(answer.groups, groups).items()}
    dead = [group for group, each in result.items() if isinstance(each, GroupDescription) and each.state == _DEAD]
    return result | await _newer(cluster, node, dead) if dead else result


async def _ask(cluster: Cluster, node: Node, message: object, response: type[T]) -> T:
    within_s = cluster.calls.options.silent_node_patience_ms / 1_000
    return await cluster.calls.call(node.endpoint, message, response, within_s=within_s)


def _matched(answers: Sequence[Answer], groups: Sequence[str]) -> Mapping[str, Answer]:
    """Answers by group, in the order of the request. Raises ProtocolViolation if they do not match it."""
    result = {each.group_id: each for each in answers}
    if result.keys() != set(groups) or len(answers) != len(groups):
        raise ProtocolViolation(
            f"describing groups failed: {len(answers)} answers to {len(groups)} questions, or to others"
        )
    return {group: result[group] for group in groups}


def _classic(result: DescribeGroupsResponseGroup, node: Node) -> GroupDescription | PenstockError:
    if result.error_code not in (NONE, _GROUP_ID_NOT_FOUND):
        return _refused(result)
    if result.error_code == _GROUP_ID_NOT_FOUND or result.group_state == _DEAD:
        return GroupDescription(result.group_id, _DEAD, "", node, ())
    members = tuple(_member(each) for each in result.members)
    return GroupDescription(result.group_id, result.group_state, result.protocol_data, node, members, _CLASSIC)


def _refused(result: DescribeGroupsResponseGroup | ConsumerGroupDescribeResponseGroup) -> ServerError:
    return error_for(result.error_code, f"describing group {result.group_id!r} failed", detail=result.error_message)


def _member(result: DescribeGroupsResponseMember) -> GroupMember:
    try:
        partitions = partitions_assigned(result.member_assignment)
    except PenstockError:
        partitions = frozenset()  # a protocol type other than "consumer" has its own format
    return GroupMember(result.member_id, result.group_instance_id, result.client_id, result.client_host, partitions)


async def _newer(cluster: Cluster, node: Node, groups: Sequence[str]) -> Descriptions:
    """The groups of the KIP-848 protocol among these, if the broker has that protocol."""
    # Imported here: only groups that are "Dead" in the classic protocol need it.
    from penstock.protocols.kafka.wire.groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

    try:
        answer = await _ask(
            cluster, node, ConsumerGroupDescribeRequest(group_ids=groups), ConsumerGroupDescribeResponse
        )
    except ServerError as error:
        if error.code != _UNSUPPORTED_VERSION:
            raise
        return {}
    answered = _matched(answer.groups, groups)
    return {
        group: _newer_group(each, node) if each.error_code == NONE else _refused(each)
        for group, each in answered.items()
        if each.error_code not in (_GROUP_ID_NOT_FOUND, _UNSUPPORTED_VERSION)
    }


def _newer_group(result: ConsumerGroupDescribeResponseGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        result.group_id,
        result.group_state,
        result.assignor_name,
        node,
        tuple(map(_newer_member, result.members)),
        _CONSUMER,
        result.group_epoch,
        result.assignment_epoch,
    )


def _newer_member(result: ConsumerGroupDescribeResponseMember) -> GroupMember:
    return GroupMember(
        result.member_id,
        result.instance_id,
        result.client_id,
        result.client_host,
        _partitions(result.assignment.topic_partitions),
        result.member_epoch,
        _partitions(result.target_assignment.topic_partitions),
        _SPEAKS.get(result.member_type),
    )


def _partitions(result: Iterable[ConsumerGroupDescribeResponseTopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(topic.topic_name, number) for topic in result for number in topic.partitions)


# Topics: create, grow, delete, read and change configuration, delete records.
#
# Changes go to the controller. After a lost connection the change may already have happened, so a retry that finds it
# done (the topic already exists, or is already gone) is a success. A call returns when metadata shows the change.
# Source: Kafka protocol guide, CreateTopics v2-v7, DeleteTopics v1-v6, CreatePartitions, DescribeConfigs,
# IncrementalAlterConfigs v0-v1, DeleteRecords.

Response = TypeVar("Response")
TopicErrors = Iterable[tuple[str, int, str | None]]
"""For each topic in a response: its name, error code, the broker's text."""

_UNKNOWN_TOPIC, _LEADER_NOT_AVAILABLE, _EXISTS, _INVALID_PARTITIONS = 3, 5, 36, 37
_TOPIC = 2
_SET, _DELETE = 0, 1
_OF_TOPIC = 1
_SOURCES = {
    _OF_TOPIC: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
_FIRST_WITH_IDS = 6
_CHANGE_TIMEOUT_MS = 30_000
_SHOWS_MS = 15_000


async def create_topics(cluster: Cluster, topics: Sequence[NewTopic]) -> None:
    """Create all topics; returns when each partition has a leader. Raises ServerError for the first failure."""
    message = CreateTopicsRequest(
        timeout_ms=_CHANGE_TIMEOUT_MS,
        topics=[
            CreateTopicsRequestTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    CreateTopicsRequestConfig(name=name, value=value) for name, value in (topic.config or {}).items()
                ],
            )
            for topic in topics
        ],
    )

    def on_result(answer: CreateTopicsResponse) -> TopicErrors:
        return ((each.name, each.error_code, each.error_message) for each in answer.topics)

    await _change(cluster, message, CreateTopicsResponse, on_result, "creating a topic failed", repeated=_EXISTS)
    names = [topic.name for topic in topics]
    await _wait_until(cluster, names, lambda known: len(known) == len(names) and all(map(_is_led, known.values())))


async def delete_topics(cluster: Cluster, names: Collection[str]) -> None:
    """Delete all; returns when they are gone from metadata. Raises ServerError for the first failure."""

    def build(version: int) -> DeleteTopicsRequest:
        if version < _FIRST_WITH_IDS:
            return DeleteTopicsRequest(topic_names=list(names), timeout_ms=_CHANGE_TIMEOUT_MS)
        topics = [DeleteTopicsRequestTopic(name=name) for name in names]
        return DeleteTopicsRequest(topics=topics, timeout_ms=_CHANGE_TIMEOUT_MS)

    def on_result(answer: DeleteTopicsResponse) -> TopicErrors:
        return ((each.name or "", each.error_code, each.error_message) for each in answer.responses)

    message = ByVersion(DeleteTopicsRequest, build)
    await _change(cluster, message, DeleteTopicsResponse, on_result, "deleting a topic failed", repeated=_UNKNOWN_TOPIC)
    await _wait_until(cluster, names, lambda known: not known)


async def add_partitions(cluster: Cluster, name: str, total: int) -> None:
    """Grow a topic to ``total`` partitions; returns when each has a leader. Raises ServerError."""
    message = CreatePartitionsRequest(
        topics=[CreatePartitionsRequestTopic(name=name, count=total, assignments=None)], timeout_ms=_CHANGE_TIMEOUT_MS
    )

    def on_result(answer: CreatePartitionsResponse) -> TopicErrors:
        return ((each.name, each.error_code, each.error_message) for each in answer.results)

    what = "adding partitions failed"
    await _change(cluster, message, CreatePartitionsResponse, on_result, what, repeated=_INVALID_PARTITIONS)

    def grown(known: Mapping[str, TopicInfo]) -> bool:
        return name in known and len(known[name].partitions) >= total and _is_led(known[name])

    await _wait_until(cluster, [name], grown)


async def topic_config(cluster: Cluster, name: str) -> dict[str, str]:
    """Every setting of a topic, including defaults; "" for one without a value. Raises ServerError."""
    return {setting: each.value or "" for setting, each in (await describe_topic_config(cluster, name)).items()}


async def describe_topic_config(cluster: Cluster, name: str) -> dict[str, TopicSetting]:
    """Every setting of a topic, with its default and its source. Raises ServerError."""
    # Imported here: few programs need this, and every program that lists topics imports this module.
    from penstock.protocols.kafka.wire.configs import (
        DescribeConfigsRequest,
        DescribeConfigsRequestResource,
        DescribeConfigsResponse,
    )

    what = "reading a topic's config failed"
    resource = DescribeConfigsRequestResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
    message = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    answer = await cluster.ask_anyone(message, DescribeConfigsResponse)
    result = only(answer.results, what)
    if result.error_code != NONE:
        raise error_for(result.error_code, what, topic=name, detail=result.error_message)
    return {
        each.name: TopicSetting(
            each.value,
            next((_in_ms(*known) for known in _of_brokers(each.synonyms)), None),
            _SOURCES.get(each.config_source, ""),
        )
        for each in result.configs
    }


def _of_brokers(synonyms: Sequence[DescribeConfigsResponseSynonym]) -> Iterator[tuple[str, str]]:
    """The values that apply if the topic sets nothing; the first one wins."""
    return ((each.name, each.value) for each in synonyms if each.source != _OF_TOPIC and each.value is not None)


def _in_ms(name: str, value: str) -> str:
    """Convert hours: some topic defaults exist only in hours, as ``log.retention.hours`` for ``retention.ms``."""
    return str(int(value) * 3_600_000) if name.endswith(".hours") else value


async def alter_topic_config(cluster: Cluster, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
    """Change these settings of a topic; None removes one, so that the default applies. Raises ServerError."""
    from penstock.protocols.kafka.wire.configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsRequestConfig,
        IncrementalAlterConfigsRequestResource,
        IncrementalAlterConfigsResponse,
    )

    what = "changing a topic's config failed"
    configs = [
        IncrementalAlterConfigsRequestConfig(
            name=setting, config_operation=_SET if value is not None else _DELETE, value=value
        )
        for setting, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequestResource(resource_type=_TOPIC, resource_name=name, configs=configs)
    message = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run)
    answer = await cluster.ask_anyone(message, IncrementalAlterConfigsResponse)
    result = only(answer.responses, what)
    if result.error_code != NONE:
        raise error_for(result.error_code, what, topic=name, detail=result.error_message)


async def delete_records(cluster: Cluster, before: Mapping[Partition, int]) -> dict[Partition, int]:
    """Delete all records below an offset (-1: below the high watermark); returns each log's new start."""

    async def ask(node: Node, partitions: Sequence[Partition]) -> dict[Partition, int | PenstockError]:
        message = DeleteRecordsRequest(
            timeout_ms=_CHANGE_TIMEOUT_MS,
            topics=[
                DeleteRecordsRequestTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsRequestPartition(partition_index=partition.id, offset=before[partition])
                        for partition in of_topic
                    ],
                )
                for topic, of_topic in by_topic(partitions).items()
            ],
        )
        answer = await cluster.calls.call(node.endpoint, message, DeleteRecordsResponse)
        return {
            Partition(topic.name, each.partition_index): each.low_watermark
            if each.error_code == NONE
            else error_for(each.error_code, what, topic=topic.name, partition=each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
        }

    what = "deleting records failed"
    return await on_leaders(cluster, before, ask, what)


async def _change(
    cluster: Cluster,
    message: object,
    response: type[Response],
    on_result: Callable[[Response], TopicErrors],
    what: str,
    *,
    repeated: int,
) -> None:
    """Ask the controller until every topic has a result. ``repeated`` is the code for a change already made."""
    retry = Retry(cluster.calls.channel, cluster.calls.options)
    while True:
        try:
            controller = await cluster.controller()
            answer = await cluster.calls.call(controller, message, response, timeout_s=_CHANGE_TIMEOUT_MS / 1_000 + 5)
            for name, code, detail in on_result(answer):
                if code != NONE and not (code == repeated and retry.attempts):
                    raise error_for(code, what, topic=name, detail=detail)
        except PenstockError as error:
            if isinstance(error, ServerError) and error.code == _UNKNOWN_TOPIC:
                raise  # the controller is authoritative: waiting would not help
            await retry.after(error)
        else:
            return


async def _wait_until(
    cluster: Cluster, names: Collection[str], done: Callable[[Mapping[str, TopicInfo]], bool]
) -> None:
    """Poll metadata until ``done``. Raises LEADER_NOT_AVAILABLE if that takes too long."""
    retry = Retry(cluster.calls.channel, cluster.calls.options, timeout_ms=_SHOWS_MS)
    while not done(await cluster.topics(names, fresh=True)):
        await retry.pause(error_for(_LEADER_NOT_AVAILABLE, "the change is made, but metadata does not show it yet"))


def _is_led(topic: TopicInfo) -> bool:
    return all(info.leader is not None for info in topic.partitions)


# Modules that change groups are imported at first use: a program that lists topics does not load their messages.
class KafkaAdmin(AdminClient):
    """``penstock.interfaces.admin.AdminClient``. All methods raise ServerError, ConnectionLost, RequestTimeout."""

    def __init__(self, cluster: Cluster, coordinator_of: Callable[[str], Coordinator]) -> None:
        self._cluster = cluster
        self._coordinator_of = coordinator_of

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to."""
        await create_topics(self._cluster, topics)

    async def delete_topics(self, names: Collection[str]) -> None:
        """Delete all, with their records."""
        await delete_topics(self._cluster, names)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions."""
        await add_partitions(self._cluster, name, total)

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        """Topics by name; None returns all."""
        return await self._cluster.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        """Every setting of a topic."""
        return await topic_config(self._cluster, name)

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """Every setting of a topic, with its default and its source."""
        return await describe_topic_config(self._cluster, name)

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        """Change some settings; brokers before Kafka 2.3 cannot."""
        await alter_topic_config(self._cluster, name, settings, dry_run=dry_run)

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Delete records below an offset; returns each log's new start."""
        return await delete_records(self._cluster, before)

    async def groups(self) -> Sequence[GroupListing]:
        """All groups of the cluster."""
        return await list_groups(self._cluster)

    async def describe_group(self, group: str) -> GroupDescription:
        """One group and its members."""
        return await describe_group(self._cluster, group)

    async def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """Many groups, with one or two requests per two hundred groups of a coordinator."""
        return await describe_groups(self._cluster, groups)

    async def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """A penstock node's rebalance history of the group; None from any other broker."""
        return await rebalances(self._coordinator_of(group))

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Committed offsets of some partitions; None returns all."""
        return await committed(self._coordinator_of(group), partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Set a group's offsets; refused while the group has members."""
        await commit(self._coordinator_of(group), offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        """Delete groups without members; stops at the first that fails."""
        from penstock.protocols.kafka.client import group_changes

        for group in groups:
            await group_changes.delete_group(self._coordinator_of(group))

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete committed offsets, except of topics that members read."""
        from penstock.protocols.kafka.client import group_changes

        await group_changes.delete_offsets(self._coordinator_of(group), partitions)

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        """Remove static members."""
        from penstock.protocols.kafka.client import group_changes

        await group_changes.remove_members(self._coordinator_of(group), instance_ids, reason)

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Remove all members."""
        from penstock.protocols.kafka.client import group_changes

        await group_changes.remove_all_members(self._coordinator_of(group), reason)
