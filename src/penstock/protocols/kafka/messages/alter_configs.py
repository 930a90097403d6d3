"""AlterConfigs and IncrementalAlterConfigs: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, STR, Api, array


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
