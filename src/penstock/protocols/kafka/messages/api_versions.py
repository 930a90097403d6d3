"""ApiVersions, which every connection begins with: a node that waits for its first client has loaded no other message.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import BOOL, I16, I32, I64, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """ApiVersions request, versions 0-5."""

    API: ClassVar[Api] = Api(18, 0, 5, flexible=3)
    client_software_name: Annotated[str, STR.since(3).ignorable()] = ""
    client_software_version: Annotated[str, STR.since(3).ignorable()] = ""
    cluster_id: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    node_id: Annotated[int, I32.since(5).ignorable()] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponseApiKey:
    """One entry of ``api_keys``."""

    api_key: Annotated[int, I16] = 0
    min_version: Annotated[int, I16] = 0
    max_version: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponseSupportedFeature:
    """One entry of ``supported_features``."""

    name: Annotated[str, STR] = ""
    min_version: Annotated[int, I16] = 0
    max_version: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponseFinalizedFeature:
    """One entry of ``finalized_features``."""

    name: Annotated[str, STR] = ""
    max_version_level: Annotated[int, I16] = 0
    min_version_level: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
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
