"""ListConfigResources: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesRequest:
    """ListConfigResources request, versions 0-1."""

    API: ClassVar[Api] = Api(74, 0, 1, flexible=0)
    resource_types: Annotated[Sequence[int], array(I8).since(1)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponseConfigResource:
    """One entry of ``config_resources``."""

    resource_name: Annotated[str, STR] = ""
    resource_type: Annotated[int, I8.since(1).ignorable()] = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponse:
    """ListConfigResources response, versions 0-1."""

    API: ClassVar[Api] = Api(74, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    config_resources: Annotated[
        Sequence[ListConfigResourcesResponseConfigResource], array(ListConfigResourcesResponseConfigResource)
    ] = ()
