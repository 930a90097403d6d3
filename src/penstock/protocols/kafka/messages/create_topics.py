"""CreateTopics: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I8, I16, I32, NO_UUID, STR, UUID, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequestAssignment:
    """One entry of ``assignments``."""

    partition_index: Annotated[int, I32] = 0
    broker_ids: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequestConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    num_partitions: Annotated[int, I32] = 0
    replication_factor: Annotated[int, I16] = 0
    assignments: Annotated[Sequence[CreateTopicsRequestAssignment], array(CreateTopicsRequestAssignment)] = ()
    configs: Annotated[Sequence[CreateTopicsRequestConfig], array(CreateTopicsRequestConfig)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    """CreateTopics request, versions 0-7."""

    API: ClassVar[Api] = Api(19, 0, 7, flexible=5)
    topics: Annotated[Sequence[CreateTopicsRequestTopic], array(CreateTopicsRequestTopic)] = ()
    timeout_ms: Annotated[int, I32] = 60000
    validate_only: Annotated[bool, BOOL.since(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponseConfig:
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    read_only: Annotated[bool, BOOL] = False
    config_source: Annotated[int, I8] = -1
    is_sensitive: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    topic_id: Annotated[bytes, UUID.since(7).ignorable()] = NO_UUID
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(1).ignorable()] = ""
    topic_config_error_code: Annotated[int, I16.tag(0).since(5).ignorable()] = 0
    num_partitions: Annotated[int, I32.since(5).ignorable()] = -1
    replication_factor: Annotated[int, I16.since(5).ignorable()] = -1
    configs: Annotated[
        Sequence[CreateTopicsResponseConfig] | None, array(CreateTopicsResponseConfig).nullable().since(5).ignorable()
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """CreateTopics response, versions 0-7."""

    API: ClassVar[Api] = Api(19, 0, 7, flexible=5)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    topics: Annotated[Sequence[CreateTopicsResponseTopic], array(CreateTopicsResponseTopic)] = ()
