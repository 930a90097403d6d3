"""DescribeAcls: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsRequest:
    """DescribeAcls request, versions 1-3."""

    API: ClassVar[Api] = Api(29, 1, 3, flexible=2)
    resource_type_filter: Annotated[int, I8] = 0
    resource_name_filter: Annotated[str | None, STR.nullable()] = ""
    pattern_type_filter: Annotated[int, I8.since(1)] = 3
    principal_filter: Annotated[str | None, STR.nullable()] = ""
    host_filter: Annotated[str | None, STR.nullable()] = ""
    operation: Annotated[int, I8] = 0
    permission_type: Annotated[int, I8] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponseAcl:
    """One entry of ``acls``."""

    principal: Annotated[str, STR] = ""
    host: Annotated[str, STR] = ""
    operation: Annotated[int, I8] = 0
    permission_type: Annotated[int, I8] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponseResource:
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    pattern_type: Annotated[int, I8.since(1)] = 3
    acls: Annotated[Sequence[DescribeAclsResponseAcl], array(DescribeAclsResponseAcl)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponse:
    """DescribeAcls response, versions 1-3."""

    API: ClassVar[Api] = Api(29, 1, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resources: Annotated[Sequence[DescribeAclsResponseResource], array(DescribeAclsResponseResource)] = ()
