"""DeleteGroups: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    """DeleteGroups request, versions 0-2."""

    API: ClassVar[Api] = Api(42, 0, 2, flexible=2)
    groups_names: Annotated[Sequence[str], array(STR)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponseResult:
    """One entry of ``results``."""

    group_id: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """DeleteGroups response, versions 0-2."""

    API: ClassVar[Api] = Api(42, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[DeleteGroupsResponseResult], array(DeleteGroupsResponseResult)] = ()
