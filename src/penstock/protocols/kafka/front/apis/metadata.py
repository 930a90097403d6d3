"""Metadata: the node, its topics and partitions; makes topics that are asked for and missing, where that is on.

The error code of a whole answer (v13, KIP-1102) asks clients to bootstrap anew, which a node never does.
Source: Kafka protocol, Metadata v0-v13; KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError, TopicExists, UpstreamLost
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call, is_internal
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, shown
from penstock.protocols.kafka.front.why import note
from penstock.protocols.kafka.messages.declare import NO_UUID
from penstock.protocols.kafka.messages.discovery import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.seams.enode import TopicState

__all__ = ["metadata"]

_IDS_SINCE = 10
_NAME_MAY_BE_NULL = 12
_STEPS_TO_MAKE = 500
"""That it takes to make a topic: the catalog is saved."""


async def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Serve Metadata."""
    shared = call.shared
    wanted: Sequence[MetadataRequestTopic] | None = request.topics
    if wanted is None or (call.version == 0 and not wanted):
        topics = [await _in_turn(call, request, topic) for topic in await shared.all_topics()]
    else:
        # Java's consumers leave an empty name beside the id; where anybody gives ids, a real broker reads no names.
        by_id = {topic.topic_id: topic for topic in wanted if topic.topic_id != NO_UUID}
        # Each name once, also as a real broker.
        once = by_id.values() or {topic.name: topic for topic in wanted}.values()
        topics = [await _asked(call, request, topic) for topic in once]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=shared.node_id, host=shared.advertised.host, port=shared.advertised.port)
        ],
        cluster_id=shared.services.identity.cluster_id,
        controller_id=shared.node_id,
        topics=topics,
        cluster_authorized_operations=shown(CLUSTER_OPERATIONS, request.include_cluster_authorized_operations),
    )


async def _in_turn(call: Call, request: MetadataRequest, topic: TopicState) -> MetadataResponseTopic:
    try:
        return await _topic(call, request, topic)
    except UpstreamLost:
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=topic.name, topic_id=topic.id)


async def _asked(call: Call, request: MetadataRequest, topic: MetadataRequestTopic) -> MetadataResponseTopic:
    try:
        return await _found(call, request, topic)
    except UpstreamLost:
        code = ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)


async def _found(call: Call, request: MetadataRequest, topic: MetadataRequestTopic) -> MetadataResponseTopic:
    enode = call.shared.enode
    if topic.name is None or topic.topic_id != NO_UUID:
        by_id = await enode.topic_by_id(topic.topic_id)
        if by_id is not None:
            return await _topic(call, request, by_id)
        await call.pace.spend()
        name = None if call.version >= _NAME_MAY_BE_NULL else ""
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=name, topic_id=topic.topic_id)
    operations = shown(TOPIC_OPERATIONS, request.include_topic_authorized_operations)
    found = await enode.topic(topic.name)
    if found is not None:
        return await _topic(call, request, found)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    options = call.shared.options
    await call.pace.spend(1, 1)
    creates = options.auto_create_topics and enode.abilities_of(topic.name).topics
    if creates and request.allow_auto_topic_creation and not is_internal(topic.name):
        await call.pace.spend(0, _STEPS_TO_MAKE)
        if call.line.over:  # the client has gone; one that wants the topic asks again
            return MetadataResponseTopic(error_code=code, name=topic.name, topic_authorized_operations=operations)
        room = call.shared.limits.room
        try:
            await room.take(topic.name, options.default_partitions, call.line.address.host)
            found = await enode.create_topic(topic.name, options.default_partitions, {})
        except Refused as error:
            note(code, error)  # the code that a real broker answers where a policy lets no more be made
        except TopicExists:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION  # one whose name differs only in "." and "_"
            found = await enode.topic(topic.name)  # or this one: somebody was quicker
        except UpstreamLost:
            raise
        except PenstockError as error:
            code = code_of(error)
        finally:
            if found is None:
                await room.correct(topic.name)
    if found is None:
        return MetadataResponseTopic(error_code=code, name=topic.name, topic_authorized_operations=operations)
    return await _topic(call, request, found)


async def _topic(call: Call, request: MetadataRequest, topic: TopicState) -> MetadataResponseTopic:
    await call.pace.spend(1 + topic.partitions, 1 + topic.partitions)
    node, places = call.shared.node_id, await call.shared.enode.places(topic.name)
    partitions = [
        MetadataResponsePartition(
            error_code=ErrorCode.NONE if place.led else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=node if place.led else -1,
            leader_epoch=place.epoch,
            replica_nodes=(node,),
            isr_nodes=(node,),
        )
        for number, place in enumerate(places)
    ]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=shown(TOPIC_OPERATIONS, request.include_topic_authorized_operations),
    )
