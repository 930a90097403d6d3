"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords.

Source: Kafka protocol, CreateTopics v0-v7 (KIP-464, KIP-525), DeleteTopics v0-v6 (KIP-516), CreatePartitions v0-v3,
DeleteRecords v0-v2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from penstock.concurrency.runtime import retry_while_unreachable
from penstock.errors import PenstockError, TopicExists, UpstreamLost
from penstock.interfaces.enode import TopicState, extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.front import Call
from penstock.protocols.kafka.server.limits import is_internal
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.server.topic_options import OPTIONS, check_options, described
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)

__all__ = ["create_partitions", "create_topics", "delete_records", "delete_topics"]

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DEFAULT = -1
_IDS_SINCE = 6
_NAME_MAY_BE_NULL = 6
_WHOLE_LOG = -1
_STEPS = 500
"""The cost of changing a topic: the catalog is saved, and synced, each time."""
_STEPS_TO_CHECK = 50


# CreateTopics.


async def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Serve CreateTopics."""
    times = Counter(topic.name for topic in request.topics)
    answers = []
    for topic in request.topics:
        await call.pace.spend(1, _STEPS_TO_CHECK if request.validate_only else _STEPS)
        try:
            if times[topic.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the topic stands twice in the request")
            answers.append(await _create(call, topic, request.validate_only))
        except PenstockError as error:
            answers.append(
                CreateTopicsResponseTopic(
                    name=topic.name, error_code=code_of(error), error_message=error.message, configs=None
                )
            )
    return CreateTopicsResponse(topics=answers)


async def _create(call: Call, topic: CreateTopicsRequestTopic, validate_only: bool) -> CreateTopicsResponseTopic:
    enode = call.shared.enode
    config = {each.name: each.value for each in topic.configs}
    partitions = _partitions(call, topic)
    options = check_options(config, enode.abilities_of(topic.name))
    if is_internal(topic.name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic")
    if not _NAME.fullmatch(topic.name) or topic.name in (".", ".."):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name[:300]!r} cannot be a topic's name")
    if await enode.topic(topic.name) is not None:
        raise _exists(topic.name)
    said = await enode.node_options()
    limits = call.shared.limits
    created: TopicState | None = None
    if not validate_only:
        try:
            await limits.room.take(topic.name, partitions, call.connection.address.host)
            created = await _made(call, topic.name, partitions, options)
        except TopicExists as error:
            if await enode.topic(topic.name) is not None:  # another request was faster
                raise _exists(topic.name) from error
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, error.message) from error
        finally:
            if created is None:
                await limits.room.correct(topic.name)
    await call.pace.spend(len(OPTIONS), len(OPTIONS) / 5)
    return CreateTopicsResponseTopic(
        name=topic.name,
        topic_id=created.id if created else NO_UUID,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsResponseConfig(name=each.name, value=each.value, config_source=each.source)
            for each in described(options, call.shared.node_id, call.shared.options, said)
        ],
    )


async def _made(call: Call, name: str, partitions: int, options: Mapping[str, str]) -> TopicState:
    """Create a topic that did not exist before. If the response is lost and it exists now, this call created it."""
    enode = call.shared.enode
    try:
        return await enode.create_topic(name, partitions, options)
    except UpstreamLost:
        made = await retry_while_unreachable(call.shared.services.runtime, lambda: enode.topic(name))
        if made is None or made.partitions != partitions:
            raise
        return made


def _exists(topic: str) -> Refused:
    return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")


def _partitions(call: Call, topic: CreateTopicsRequestTopic) -> int:
    if not topic.assignments:
        if topic.replication_factor not in (_DEFAULT, 1):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"{topic.replication_factor} replicas, and there is one node"
            )
        if topic.num_partitions == _DEFAULT:
            return call.shared.options.default_partitions
        if not 0 < topic.num_partitions <= call.shared.options.max_partitions:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"{topic.num_partitions} partitions; 1 to {call.shared.options.max_partitions} are possible",
            )
        return topic.num_partitions
    if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
        raise Refused(ErrorCode.INVALID_REQUEST, "partitions are assigned and counted at once")
    numbers = sorted(each.partition_index for each in topic.assignments)
    brokers = {tuple(each.broker_ids) for each in topic.assignments}
    if numbers != list(range(len(numbers))) or brokers != {(call.shared.node_id,)}:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be 0, 1, … on the one node there is")
    return len(numbers)


# DeleteTopics.


async def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Serve DeleteTopics; offsets that groups have committed for a topic are deleted with it."""
    if call.version < _IDS_SINCE:
        wanted = [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    else:
        wanted = list(request.topics)
    return DeleteTopicsResponse(responses=[await _delete(call, topic) for topic in wanted])


async def _delete(call: Call, topic: DeleteTopicsRequestTopic) -> DeleteTopicsResponseTopic:
    enode = call.shared.enode
    name, topic_id = topic.name, topic.topic_id
    await call.pace.spend(1, _STEPS)
    try:
        if name is not None and topic_id != NO_UUID:
            raise Refused(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
        found = await (enode.topic_by_id(topic_id) if name is None else enode.topic(name))
        if found is None:
            if name is not None:
                await _forget_offsets(call, name)  # an earlier deletion may have been interrupted before this
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise Refused(unknown, "no such topic")
        name, topic_id = found.name, found.id
        if is_internal(name):
            raise Refused(ErrorCode.INVALID_REQUEST, "an internal topic")
        await _delete_topic(call, found)
        await call.shared.limits.room.correct(name)
        await _forget_offsets(call, name)
    except PenstockError as error:
        shown = "" if name is None and call.version < _NAME_MAY_BE_NULL else name
        return DeleteTopicsResponseTopic(
            name=shown, topic_id=topic_id, error_code=code_of(error), error_message=error.message
        )
    return DeleteTopicsResponseTopic(name=name, topic_id=topic_id)


async def _delete_topic(call: Call, topic: TopicState) -> None:
    """Delete a topic that existed a moment ago. If the response is lost and it is gone now, this call deleted it."""
    enode = call.shared.enode
    try:
        await enode.delete_topic(topic.name)
    except UpstreamLost:
        left = await retry_while_unreachable(call.shared.services.runtime, lambda: enode.topic(topic.name))
        if left is not None and left.id == topic.id:
            raise


async def _forget_offsets(call: Call, topic: str) -> None:
    # Retried: the topic is gone already, so a repeated DeleteTopics would be answered with an error.
    await retry_while_unreachable(call.shared.services.runtime, lambda: _forget(call, topic))


async def _forget(call: Call, topic: str) -> None:
    offsets = call.shared.offsets
    for group in list(await offsets.groups()):
        if any(partition.topic == topic for partition in await offsets.committed(group)):
            await offsets.forget(group, lambda partition, _: partition.topic == topic)


# CreatePartitions.


async def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Serve CreatePartitions."""
    times = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        await call.pace.spend(1, _STEPS_TO_CHECK if request.validate_only else _STEPS)
        code, message = ErrorCode.NONE, None
        try:
            if times[topic.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the topic stands twice in the request")
            before = await _check_growth(call, topic)
            if not request.validate_only:
                await call.shared.limits.room.take(topic.name, topic.count, call.connection.address.host)
                try:
                    await _grow(call, topic)
                except PenstockError:
                    await call.shared.limits.room.take(topic.name, before, call.connection.address.host)
                    raise
        except PenstockError as error:
            code, message = code_of(error), error.message
        results.append(CreatePartitionsResponseResult(name=topic.name, error_code=code, error_message=message))
    return CreatePartitionsResponse(results=results)


async def _grow(call: Call, topic: CreatePartitionsRequestTopic) -> None:
    """Add partitions to a topic that had fewer. If the response is lost and all exist now, this call added them."""
    enode = call.shared.enode
    try:
        await enode.add_partitions(topic.name, topic.count)
    except UpstreamLost:
        grown = await retry_while_unreachable(call.shared.services.runtime, lambda: enode.topic(topic.name))
        if grown is None or grown.partitions != topic.count:
            raise


async def _check_growth(call: Call, topic: CreatePartitionsRequestTopic) -> int:
    """The topic's number of partitions, if it may grow to the wanted number. Raises Refused."""
    found = await call.shared.enode.topic(topic.name)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
    if is_internal(topic.name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic")
    if topic.count <= found.partitions:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"the topic has {found.partitions} partitions already")
    if topic.assignments is None:
        return found.partitions
    here = (call.shared.node_id,)
    added = topic.count - found.partitions
    if len(topic.assignments) != added or any(tuple(each.broker_ids) != here for each in topic.assignments):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} new partitions go to the one node there is")
    return found.partitions


# DeleteRecords.


async def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Serve DeleteRecords."""
    topics = []
    for topic in request.topics:
        await call.pace.spend(0, 0.5)
        answers = []
        # Each partition once, with the last offset given for it, as at a real broker.
        for part in {part.partition_index: part for part in topic.partitions}.values():
            await call.pace.spend(1, 2)
            partition = Partition(topic.name, part.partition_index)
            low, code = -1, ErrorCode.NONE
            try:
                low = await _delete_records(call, partition, part.offset)
            except PenstockError as error:
                code = code_of(error)
            answers.append(
                DeleteRecordsResponsePartition(partition_index=partition.id, low_watermark=low, error_code=code)
            )
        topics.append(DeleteRecordsResponseTopic(name=topic.name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)


async def _delete_records(call: Call, partition: Partition, before: int) -> int:
    enode = call.shared.enode
    end = (await extent(enode, partition)).end
    topic = await enode.topic(partition.topic)
    if is_internal(partition.topic):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic")
    if topic is not None and (await call.shared.config_of(topic)).get("cleanup.policy") == "compact":
        raise Refused(ErrorCode.POLICY_VIOLATION, "records of a compacted topic are deleted by their keys")
    if before < _WHOLE_LOG:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {before}")
    return await enode.delete_records(partition, end if before == _WHOLE_LOG else before)
