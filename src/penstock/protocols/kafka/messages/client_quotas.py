"""DescribeClientQuotas, AlterClientQuotas: the messages as data (Apache Kafka protocol guide, schemas of 4.3; KIP-546).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, F64, I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequestComponent:
    """One entry of ``components``."""

    entity_type: Annotated[str, STR] = ""
    match_type: Annotated[int, I8] = 0
    match: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """DescribeClientQuotas request, versions 0-1."""

    API: ClassVar[Api] = Api(48, 0, 1, flexible=1)
    components: Annotated[
        Sequence[DescribeClientQuotasRequestComponent], array(DescribeClientQuotasRequestComponent)
    ] = ()
    strict: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponseEntity:
    """One entry of ``entity``; None is the default of its type."""

    entity_type: Annotated[str, STR] = ""
    entity_name: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponseValue:
    """One entry of ``values``."""

    key: Annotated[str, STR] = ""
    value: Annotated[float, F64] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponseEntry:
    """One entry of ``entries``."""

    entity: Annotated[Sequence[DescribeClientQuotasResponseEntity], array(DescribeClientQuotasResponseEntity)] = ()
    values: Annotated[Sequence[DescribeClientQuotasResponseValue], array(DescribeClientQuotasResponseValue)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    """DescribeClientQuotas response, versions 0-1."""

    API: ClassVar[Api] = Api(48, 0, 1, flexible=1)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    entries: Annotated[
        Sequence[DescribeClientQuotasResponseEntry] | None, array(DescribeClientQuotasResponseEntry).nullable()
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequestEntity:
    """One entry of ``entity``; None is the default of its type."""

    entity_type: Annotated[str, STR] = ""
    entity_name: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequestOp:
    """One entry of ``ops``."""

    key: Annotated[str, STR] = ""
    value: Annotated[float, F64] = 0.0
    remove: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequestEntry:
    """One entry of ``entries``."""

    entity: Annotated[Sequence[AlterClientQuotasRequestEntity], array(AlterClientQuotasRequestEntity)] = ()
    ops: Annotated[Sequence[AlterClientQuotasRequestOp], array(AlterClientQuotasRequestOp)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """AlterClientQuotas request, versions 0-1."""

    API: ClassVar[Api] = Api(49, 0, 1, flexible=1)
    entries: Annotated[Sequence[AlterClientQuotasRequestEntry], array(AlterClientQuotasRequestEntry)] = ()
    validate_only: Annotated[bool, BOOL] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponseEntity:
    """One entry of ``entity``."""

    entity_type: Annotated[str, STR] = ""
    entity_name: Annotated[str | None, STR.nullable()] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponseEntry:
    """One entry of ``entries``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    entity: Annotated[Sequence[AlterClientQuotasResponseEntity], array(AlterClientQuotasResponseEntity)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """AlterClientQuotas response, versions 0-1."""

    API: ClassVar[Api] = Api(49, 0, 1, flexible=1)
    throttle_time_ms: Annotated[int, I32] = 0
    entries: Annotated[Sequence[AlterClientQuotasResponseEntry], array(AlterClientQuotasResponseEntry)] = ()
