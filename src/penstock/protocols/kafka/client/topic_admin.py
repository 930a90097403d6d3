"""Creating, growing and deleting topics, reading their configuration, cutting off their records.

Changes go to the controller; after a connection that broke, the change may have happened, and what then looks like a
conflict (it is there already, it is gone already) is success. A change is over when metadata shows it.
Source: Kafka protocol guide, CreateTopics v2-v7, DeleteTopics v1-v6, CreatePartitions, DescribeConfigs,
IncrementalAlterConfigs v0-v1, DeleteRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import PenstockError, ServerError
from penstock.model import Node, Partition, TopicInfo
from penstock.protocols.kafka.client.calls import ByVersion, only
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.routing import by_topic, on_leaders
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.topics import (
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
from penstock.seams.admin import NewTopic, TopicSetting
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.protocols.kafka.messages.configs import DescribeConfigsResponseSynonym

__all__ = [
    "add_partitions",
    "alter_topic_config",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_topic_config",
    "topic_config",
]

Response = TypeVar("Response")
Told = Iterable[tuple[str, int, str | None]]
"""Of each topic in an answer: its name, error code, the broker's text."""

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
    """Create all; returns when each partition has a leader. Raises ServerError for the first that could not be."""
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

    def told(answer: CreateTopicsResponse) -> Told:
        return ((each.name, each.error_code, each.error_message) for each in answer.topics)

    await _change(cluster, message, CreateTopicsResponse, told, "creating a topic failed", repeated=_EXISTS)
    names = [topic.name for topic in topics]
    await _wait_until(cluster, names, lambda known: len(known) == len(names) and all(map(_is_led, known.values())))


async def delete_topics(cluster: Cluster, names: Collection[str]) -> None:
    """Delete all; returns when metadata does not show them any more. Raises ServerError for the first that failed."""

    def build(version: int) -> DeleteTopicsRequest:
        if version < _FIRST_WITH_IDS:
            return DeleteTopicsRequest(topic_names=list(names), timeout_ms=_CHANGE_TIMEOUT_MS)
        topics = [DeleteTopicsRequestTopic(name=name) for name in names]
        return DeleteTopicsRequest(topics=topics, timeout_ms=_CHANGE_TIMEOUT_MS)

    def told(answer: DeleteTopicsResponse) -> Told:
        return ((each.name or "", each.error_code, each.error_message) for each in answer.responses)

    message = ByVersion(DeleteTopicsRequest, build)
    await _change(cluster, message, DeleteTopicsResponse, told, "deleting a topic failed", repeated=_UNKNOWN_TOPIC)
    await _wait_until(cluster, names, lambda known: not known)


async def add_partitions(cluster: Cluster, name: str, total: int) -> None:
    """Grow a topic to ``total`` partitions; returns when each has a leader. Raises ServerError."""
    message = CreatePartitionsRequest(
        topics=[CreatePartitionsRequestTopic(name=name, count=total, assignments=None)], timeout_ms=_CHANGE_TIMEOUT_MS
    )

    def told(answer: CreatePartitionsResponse) -> Told:
        return ((each.name, each.error_code, each.error_message) for each in answer.results)

    what = "adding partitions failed"
    await _change(cluster, message, CreatePartitionsResponse, told, what, repeated=_INVALID_PARTITIONS)

    def grown(known: Mapping[str, TopicInfo]) -> bool:
        return name in known and len(known[name].partitions) >= total and _is_led(known[name])

    await _wait_until(cluster, [name], grown)


async def topic_config(cluster: Cluster, name: str) -> dict[str, str]:
    """Every setting of a topic, defaults too; "" for one without a value. Raises ServerError."""
    return {setting: each.value or "" for setting, each in (await describe_topic_config(cluster, name)).items()}


async def describe_topic_config(cluster: Cluster, name: str) -> dict[str, TopicSetting]:
    """Every setting of a topic, with its default and its source. Raises ServerError."""
    # Imported here: few programs ask this, and every one that lists topics imports this module.
    from penstock.protocols.kafka.messages.configs import (
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
    """What counts where the topic sets nothing: the first one that has a value."""
    return ((each.name, each.value) for each in synonyms if each.source != _OF_TOPIC and each.value is not None)


def _in_ms(name: str, value: str) -> str:
    """Brokers have some of topics' defaults in hours: ``log.retention.hours`` of ``retention.ms``."""
    return str(int(value) * 3_600_000) if name.endswith(".hours") else value


async def alter_topic_config(cluster: Cluster, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
    """Change these settings of a topic; None takes one away, so that the default counts. Raises ServerError."""
    from penstock.protocols.kafka.messages.configs import (
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
    """Delete all records below an offset (-1: below the high watermark); returns where each log begins then."""

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
    told: Callable[[Response], Told],
    what: str,
    *,
    repeated: int,
) -> None:
    """Ask the controller until every topic is answered for. ``repeated`` is what a change done twice is answered."""
    retry = Retry(cluster.calls.channel, cluster.calls.options)
    while True:
        try:
            controller = await cluster.controller()
            answer = await cluster.calls.call(controller, message, response, timeout_s=_CHANGE_TIMEOUT_MS / 1_000 + 5)
            for name, code, detail in told(answer):
                if code != NONE and not (code == repeated and retry.attempts):
                    raise error_for(code, what, topic=name, detail=detail)
        except PenstockError as error:
            if isinstance(error, ServerError) and error.code == _UNKNOWN_TOPIC:
                raise  # the controller knows: waiting would not help
            await retry.after(error)
        else:
            return


async def _wait_until(
    cluster: Cluster, names: Collection[str], done: Callable[[Mapping[str, TopicInfo]], bool]
) -> None:
    """Look at metadata until ``done``. Raises LEADER_NOT_AVAILABLE if that takes too long."""
    retry = Retry(cluster.calls.channel, cluster.calls.options, timeout_ms=_SHOWS_MS)
    while not done(await cluster.topics(names, fresh=True)):
        await retry.pause(error_for(_LEADER_NOT_AVAILABLE, "the change is made, but metadata does not show it yet"))


def _is_led(topic: TopicInfo) -> bool:
    return all(info.leader is not None for info in topic.partitions)
