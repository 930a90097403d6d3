"""ApiVersions and Metadata, the first requests of a client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from penstock.errors import PenstockError, TopicExists, UpstreamLost
from penstock.interfaces.enode import TopicState
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.front import Call, features
from penstock.protocols.kafka.server.limits import is_internal
from penstock.protocols.kafka.server.refusals import Refused, code_of, note
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "TOPIC_OPERATIONS", "api_versions", "metadata", "shown"]

# ApiVersions: the rows of the table that the log behind can serve.
#
# Source: Kafka protocol, ApiVersions v0-v5; KIP-511 (names), KIP-584 (features), KIP-1242 (the intended node).

_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMES_SINCE = 3
_NO_NODE = -1


async def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Serve ApiVersions."""
    names = (request.client_software_name, request.client_software_version)
    if call.version >= _NAMES_SINCE and not all(_NAME.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    # Before version 5 requests name no node: the fields then have their defaults.
    if (request.cluster_id is None) != (request.node_id == _NO_NODE):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    ours = (call.shared.services.identity.cluster_id, call.shared.node_id)
    if request.cluster_id is not None and (request.cluster_id, request.node_id) != ours:
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    levels = features(call.shared.enode.abilities)
    keys = [
        ApiVersionsResponseApiKey(api_key=key, min_version=row.lowest, max_version=row.highest)
        for key, row in call.shared.offered.items()
    ]
    return ApiVersionsResponse(
        api_keys=keys,
        supported_features=[
            ApiVersionsResponseSupportedFeature(name=name, min_version=0, max_version=level)
            for name, level in levels.items()
        ],
        finalized_features_epoch=0,
        finalized_features=[
            ApiVersionsResponseFinalizedFeature(name=name, min_version_level=level, max_version_level=level)
            for name, level in levels.items()
        ],
    )


# The allowed operations of a client, as bit sets: all of them, because a node does not authorize clients (KIP-430).
_NOT_ASKED: Final = -(1 << 31)

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12


def _bits(*codes: int) -> int:
    return sum(1 << code for code in codes)


CLUSTER_OPERATIONS: Final = _bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
TOPIC_OPERATIONS: Final = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
GROUP_OPERATIONS: Final = _bits(READ, DELETE, DESCRIBE)


def shown(operations: int, asked: bool) -> int:
    """The field's value: the operations if they were asked for, else Kafka's "not asked"."""
    return operations if asked else _NOT_ASKED


# Metadata: the node, its topics and partitions; creates missing topics on request, if that is enabled.
#
# The error code of a whole response (v13, KIP-1102) asks clients to bootstrap again; a node never sends it. Source:
# Kafka protocol, Metadata v0-v13; KIP-516 (topic ids).

_IDS_SINCE = 10
_NAME_MAY_BE_NULL = 12
_STEPS_TO_MAKE = 500
"""The cost of creating a topic: the catalog is saved."""


async def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Serve Metadata."""
    shared = call.shared
    wanted: Sequence[MetadataRequestTopic] | None = request.topics
    if wanted is None or (call.version == 0 and not wanted):
        topics = [await _in_turn(call, request, topic) for topic in await shared.all_topics()]
    else:
        # Java's consumers send ids with empty names; if any topic has an id, a real broker ignores names.
        by_id = {topic.topic_id: topic for topic in wanted if topic.topic_id != NO_UUID}
        # Each name once, as at a real broker.
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
        if call.connection.over:  # the client has disconnected
            return MetadataResponseTopic(error_code=code, name=topic.name, topic_authorized_operations=operations)
        room = call.shared.limits.room
        try:
            await room.take(topic.name, options.default_partitions, call.connection.address.host)
            found = await enode.create_topic(topic.name, options.default_partitions, {})
        except Refused as error:
            note(code, error)  # a real broker's code if a policy forbids another topic
        except TopicExists:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION  # its name differs from another one's only in "." and "_"
            found = await enode.topic(topic.name)  # or another request has created this one
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
