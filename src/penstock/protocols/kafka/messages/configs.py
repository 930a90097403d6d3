"""Configuration of topics and brokers: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequestConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequestResource:
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configs: Annotated[Sequence[AlterConfigsRequestConfig], array(AlterConfigsRequestConfig)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest:
    """AlterConfigs request, versions 0-2."""

    API: ClassVar[Api] = Api(33, 0, 2, flexible=2)
    resources: Annotated[Sequence[AlterConfigsRequestResource], array(AlterConfigsRequestResource)] = ()
    validate_only: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponseTopic:
    """One entry of ``responses``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    """AlterConfigs response, versions 0-2."""

    API: ClassVar[Api] = Api(33, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    responses: Annotated[Sequence[AlterConfigsResponseTopic], array(AlterConfigsResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequestConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    config_operation: Annotated[int, I8] = 0
    value: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequestResource:
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configs: Annotated[Sequence[IncrementalAlterConfigsRequestConfig], array(IncrementalAlterConfigsRequestConfig)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs request, versions 0-1."""

    API: ClassVar[Api] = Api(44, 0, 1, flexible=1)
    resources: Annotated[
        Sequence[IncrementalAlterConfigsRequestResource], array(IncrementalAlterConfigsRequestResource)
    ] = ()
    validate_only: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponseTopic:
    """One entry of ``responses``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    """IncrementalAlterConfigs response, versions 0-1."""

    API: ClassVar[Api] = Api(44, 0, 1, flexible=1)
    throttle_time_ms: Annotated[int, I32] = 0
    responses: Annotated[
        Sequence[IncrementalAlterConfigsResponseTopic], array(IncrementalAlterConfigsResponseTopic)
    ] = ()


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
