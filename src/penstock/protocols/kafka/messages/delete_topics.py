"""DeleteTopics: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, NO_UUID, STR, UUID, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str | None, STR.nullable()] = None
    topic_id: Annotated[bytes, UUID] = NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """DeleteTopics request, versions 0-6."""

    API: ClassVar[Api] = Api(20, 0, 6, flexible=4)
    topics: Annotated[Sequence[DeleteTopicsRequestTopic], array(DeleteTopicsRequestTopic).since(6)] = ()
    topic_names: Annotated[Sequence[str], array(STR).between(0, 5).ignorable()] = ()
    timeout_ms: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponseTopic:
    """One entry of ``responses``."""

    name: Annotated[str | None, STR.nullable(6)] = ""
    topic_id: Annotated[bytes, UUID.since(6).ignorable()] = NO_UUID
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(5).ignorable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    """DeleteTopics response, versions 0-6."""

    API: ClassVar[Api] = Api(20, 0, 6, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    responses: Annotated[Sequence[DeleteTopicsResponseTopic], array(DeleteTopicsResponseTopic)] = ()
