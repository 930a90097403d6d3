"""DescribeConfigs: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequestResource:
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configuration_keys: Annotated[Sequence[str] | None, array(STR).nullable()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    """DescribeConfigs request, versions 0-4."""

    API: ClassVar[Api] = Api(32, 0, 4, flexible=4)
    resources: Annotated[Sequence[DescribeConfigsRequestResource], array(DescribeConfigsRequestResource)] = ()
    include_synonyms: Annotated[bool, BOOL.since(1)] = False
    include_documentation: Annotated[bool, BOOL.since(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponseSynonym:
    """One entry of ``synonyms``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    source: Annotated[int, I8] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponseConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    read_only: Annotated[bool, BOOL] = False
    config_source: Annotated[int, I8.since(1).ignorable()] = -1
    is_default: Annotated[bool, BOOL.between(0, 0).ignorable()] = False
    is_sensitive: Annotated[bool, BOOL] = False
    synonyms: Annotated[
        Sequence[DescribeConfigsResponseSynonym], array(DescribeConfigsResponseSynonym).since(1).ignorable()
    ] = ()
    config_type: Annotated[int, I8.since(3).ignorable()] = 0
    documentation: Annotated[str | None, STR.nullable().since(3).ignorable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponseResult:
    """One entry of ``results``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configs: Annotated[Sequence[DescribeConfigsResponseConfig], array(DescribeConfigsResponseConfig)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    """DescribeConfigs response, versions 0-4."""

    API: ClassVar[Api] = Api(32, 0, 4, flexible=4)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[DescribeConfigsResponseResult], array(DescribeConfigsResponseResult)] = ()
