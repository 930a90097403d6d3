"""GetTelemetrySubscriptions: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, NO_UUID, STR, UUID, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    """GetTelemetrySubscriptions request, versions 0-0."""

    API: ClassVar[Api] = Api(71, 0, 0, flexible=0)
    client_instance_id: Annotated[bytes, UUID] = NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    """GetTelemetrySubscriptions response, versions 0-0."""

    API: ClassVar[Api] = Api(71, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    client_instance_id: Annotated[bytes, UUID] = NO_UUID
    subscription_id: Annotated[int, I32] = 0
    accepted_compression_types: Annotated[Sequence[int], array(I8)] = ()
    push_interval_ms: Annotated[int, I32] = 0
    telemetry_max_bytes: Annotated[int, I32] = 0
    delta_temporality: Annotated[bool, BOOL] = False
    requested_metrics: Annotated[Sequence[str], array(STR)] = ()
