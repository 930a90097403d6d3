"""DescribeGroups: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, BYTES, I16, I32, STR, Api, array
from penstock.seams import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    """DescribeGroups request, versions 0-6."""

    API: ClassVar[Api] = Api(15, 0, 6, flexible=5)
    groups: Annotated[Sequence[str], array(STR)] = ()
    include_authorized_operations: Annotated[bool, BOOL.since(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponseMember:
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(4).ignorable()] = None
    client_id: Annotated[str, STR] = ""
    client_host: Annotated[str, STR] = ""
    member_metadata: Annotated[Buffer, BYTES] = b""
    member_assignment: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponseGroup:
    """One entry of ``groups``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(6).ignorable()] = None
    group_id: Annotated[str, STR] = ""
    group_state: Annotated[str, STR] = ""
    protocol_type: Annotated[str, STR] = ""
    protocol_data: Annotated[str, STR] = ""
    members: Annotated[Sequence[DescribeGroupsResponseMember], array(DescribeGroupsResponseMember)] = ()
    authorized_operations: Annotated[int, I32.since(3).ignorable()] = -2147483648


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    """DescribeGroups response, versions 0-6."""

    API: ClassVar[Api] = Api(15, 0, 6, flexible=5)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    groups: Annotated[Sequence[DescribeGroupsResponseGroup], array(DescribeGroupsResponseGroup)] = ()
