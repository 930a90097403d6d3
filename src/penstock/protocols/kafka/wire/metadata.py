"""The messages that every client needs: ApiVersions, Metadata, ListOffsets.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3 (ApiVersions: 4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.protocols.kafka.wire.declarations import BOOL, I8, I16, I32, I64, NO_UUID, STR, UUID, Api, Message, array


class MetadataRequestTopic(Message):
    """One entry of ``topics``."""

    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    name: Annotated[str | None, STR.nullable(10)] = ""


class MetadataRequest(Message):
    """Metadata request, versions 0-13."""

    API: ClassVar[Api] = Api(3, 0, 13, flexible=9)
    topics: Annotated[Sequence[MetadataRequestTopic] | None, array(MetadataRequestTopic).nullable(1)] = ()
    allow_auto_topic_creation: Annotated[bool, BOOL.since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, BOOL.between(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, BOOL.since(8)] = False


class MetadataResponseBroker(Message):
    """One entry of ``brokers``."""

    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable().since(1).ignorable()] = None


class MetadataResponsePartition(Message):
    """One entry of ``partitions``."""

    error_code: Annotated[int, I16] = 0
    partition_index: Annotated[int, I32] = 0
    leader_id: Annotated[int, I32] = 0
    leader_epoch: Annotated[int, I32.since(7).ignorable()] = -1
    replica_nodes: Annotated[Sequence[int], array(I32)] = ()
    isr_nodes: Annotated[Sequence[int], array(I32)] = ()
    offline_replicas: Annotated[Sequence[int], array(I32).since(5).ignorable()] = ()


class MetadataResponseTopic(Message):
    """One entry of ``topics``."""

    error_code: Annotated[int, I16] = 0
    name: Annotated[str | None, STR.nullable(12)] = ""
    topic_id: Annotated[bytes, UUID.since(10).ignorable()] = NO_UUID
    is_internal: Annotated[bool, BOOL.since(1).ignorable()] = False
    partitions: Annotated[Sequence[MetadataResponsePartition], array(MetadataResponsePartition)] = ()
    topic_authorized_operations: Annotated[int, I32.since(8).ignorable()] = -2147483648


class MetadataResponse(Message):
    """Metadata response, versions 0-13."""

    API: ClassVar[Api] = Api(3, 0, 13, flexible=9)
    throttle_time_ms: Annotated[int, I32.since(3).ignorable()] = 0
    brokers: Annotated[Sequence[MetadataResponseBroker], array(MetadataResponseBroker)] = ()
    cluster_id: Annotated[str | None, STR.nullable().since(2).ignorable()] = None
    controller_id: Annotated[int, I32.since(1).ignorable()] = -1
    topics: Annotated[Sequence[MetadataResponseTopic], array(MetadataResponseTopic)] = ()
    cluster_authorized_operations: Annotated[int, I32.between(8, 10).ignorable()] = -2147483648
    error_code: Annotated[int, I16.since(13).ignorable()] = 0


class ListOffsetsRequestPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    current_leader_epoch: Annotated[int, I32.since(4).ignorable()] = -1
    timestamp: Annotated[int, I64] = 0
    max_num_offsets: Annotated[int, I32.between(0, 0)] = 1


class ListOffsetsRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[ListOffsetsRequestPartition], array(ListOffsetsRequestPartition)] = ()


class ListOffsetsRequest(Message):
    """ListOffsets request, versions 0-11."""

    API: ClassVar[Api] = Api(2, 0, 11, flexible=6)
    replica_id: Annotated[int, I32] = 0
    isolation_level: Annotated[int, I8.since(2)] = 0
    topics: Annotated[Sequence[ListOffsetsRequestTopic], array(ListOffsetsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32.since(10).ignorable()] = 0


class ListOffsetsResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    old_style_offsets: Annotated[Sequence[int], array(I64).between(0, 0)] = ()
    timestamp: Annotated[int, I64.since(1)] = -1
    offset: Annotated[int, I64.since(1)] = -1
    leader_epoch: Annotated[int, I32.since(4).ignorable()] = -1


class ListOffsetsResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[ListOffsetsResponsePartition], array(ListOffsetsResponsePartition)] = ()


class ListOffsetsResponse(Message):
    """ListOffsets response, versions 0-11."""

    API: ClassVar[Api] = Api(2, 0, 11, flexible=6)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[ListOffsetsResponseTopic], array(ListOffsetsResponseTopic)] = ()


# ApiVersions, the first request on every connection.
class ApiVersionsRequest(Message):
    """ApiVersions request, versions 0-5."""

    API: ClassVar[Api] = Api(18, 0, 5, flexible=3)
    client_software_name: Annotated[str, STR.since(3).ignorable()] = ""
    client_software_version: Annotated[str, STR.since(3).ignorable()] = ""
    cluster_id: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    node_id: Annotated[int, I32.since(5).ignorable()] = -1


class ApiVersionsResponseApiKey(Message):
    """One entry of ``api_keys``."""

    api_key: Annotated[int, I16] = 0
    min_version: Annotated[int, I16] = 0
    max_version: Annotated[int, I16] = 0


class ApiVersionsResponseSupportedFeature(Message):
    """One entry of ``supported_features``."""

    name: Annotated[str, STR] = ""
    min_version: Annotated[int, I16] = 0
    max_version: Annotated[int, I16] = 0


class ApiVersionsResponseFinalizedFeature(Message):
    """One entry of ``finalized_features``."""

    name: Annotated[str, STR] = ""
    max_version_level: Annotated[int, I16] = 0
    min_version_level: Annotated[int, I16] = 0


class ApiVersionsResponse(Message):
    """ApiVersions response, versions 0-5."""

    API: ClassVar[Api] = Api(18, 0, 5, flexible=3)
    error_code: Annotated[int, I16] = 0
    api_keys: Annotated[Sequence[ApiVersionsResponseApiKey], array(ApiVersionsResponseApiKey)] = ()
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    supported_features: Annotated[
        Sequence[ApiVersionsResponseSupportedFeature],
        array(ApiVersionsResponseSupportedFeature).tag(0).since(3).ignorable(),
    ] = ()
    finalized_features_epoch: Annotated[int, I64.tag(1).since(3).ignorable()] = -1
    finalized_features: Annotated[
        Sequence[ApiVersionsResponseFinalizedFeature],
        array(ApiVersionsResponseFinalizedFeature).tag(2).since(3).ignorable(),
    ] = ()
    zk_migration_ready: Annotated[bool, BOOL.tag(3).since(3).ignorable()] = False
