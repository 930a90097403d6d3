"""ListGroups: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, STR, Api, array


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
