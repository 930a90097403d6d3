"""DescribeCluster: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest:
    """DescribeCluster request, versions 0-2."""

    API: ClassVar[Api] = Api(60, 0, 2, flexible=0)
    include_cluster_authorized_operations: Annotated[bool, BOOL] = False
    endpoint_type: Annotated[int, I8.since(1)] = 1
    include_fenced_brokers: Annotated[bool, BOOL.since(2)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponseBroker:
    """One entry of ``brokers``."""

    broker_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None
    is_fenced: Annotated[bool, BOOL.since(2).ignorable()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse:
    """DescribeCluster response, versions 0-2."""

    API: ClassVar[Api] = Api(60, 0, 2, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    endpoint_type: Annotated[int, I8.since(1)] = 1
    cluster_id: Annotated[str, STR] = ""
    controller_id: Annotated[int, I32] = -1
    brokers: Annotated[Sequence[DescribeClusterResponseBroker], array(DescribeClusterResponseBroker)] = ()
    cluster_authorized_operations: Annotated[int, I32] = -2147483648
