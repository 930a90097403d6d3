"""Groups, as operators see them: ListGroups, DescribeGroups, DeleteGroups, OffsetDelete.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import BOOL, BYTES, I16, I32, STR, Api, array
from penstock.seams import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """ListGroups request, versions 0-5."""

    API: ClassVar[Api] = Api(16, 0, 5, flexible=3)
    states_filter: Annotated[Sequence[str], array(STR).since(4)] = ()
    types_filter: Annotated[Sequence[str], array(STR).since(5)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponseGroup:
    """One entry of ``groups``."""

    group_id: Annotated[str, STR] = ""
    protocol_type: Annotated[str, STR] = ""
    group_state: Annotated[str, STR.since(4).ignorable()] = ""
    group_type: Annotated[str, STR.since(5).ignorable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """ListGroups response, versions 0-5."""

    API: ClassVar[Api] = Api(16, 0, 5, flexible=3)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    groups: Annotated[Sequence[ListGroupsResponseGroup], array(ListGroupsResponseGroup)] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    """DeleteGroups request, versions 0-3."""

    API: ClassVar[Api] = Api(42, 0, 3, flexible=2)
    groups_names: Annotated[Sequence[str], array(STR)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponseResult:
    """One entry of ``results``."""

    group_id: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(3).ignorable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """DeleteGroups response, versions 0-3."""

    API: ClassVar[Api] = Api(42, 0, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[DeleteGroupsResponseResult], array(DeleteGroupsResponseResult)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetDeleteRequestPartition], array(OffsetDeleteRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    """OffsetDelete request, versions 0-0."""

    API: ClassVar[Api] = Api(47, 0, 0, flexible=None)
    group_id: Annotated[str, STR] = ""
    topics: Annotated[Sequence[OffsetDeleteRequestTopic], array(OffsetDeleteRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetDeleteResponsePartition], array(OffsetDeleteResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    """OffsetDelete response, versions 0-0."""

    API: ClassVar[Api] = Api(47, 0, 0, flexible=None)
    error_code: Annotated[int, I16] = 0
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[OffsetDeleteResponseTopic], array(OffsetDeleteResponseTopic)] = ()
