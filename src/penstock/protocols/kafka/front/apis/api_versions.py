"""ApiVersions: what the table says, as far as the log behind can do it.

Source: Kafka protocol, ApiVersions v0-v5; KIP-511 (names), KIP-584 (features), KIP-1242 (the node that is meant).
"""

from __future__ import annotations

import re

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.table import features
from penstock.protocols.kafka.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)

__all__ = ["api_versions"]

_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMES_SINCE = 3
_NO_NODE = -1


async def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Serve ApiVersions."""
    names = (request.client_software_name, request.client_software_version)
    if call.version >= _NAMES_SINCE and not all(_NAME.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    # Before version 5 requests name no node: these are the defaults then.
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
