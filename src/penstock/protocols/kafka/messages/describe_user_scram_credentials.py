"""DescribeUserScramCredentials: the messages as data (Apache Kafka protocol guide, schemas of 4.3; KIP-554).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I8, I16, I32, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequestUser:
    """One entry of ``users``."""

    name: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    """DescribeUserScramCredentials request, version 0; ``users`` None asks for all."""

    API: ClassVar[Api] = Api(50, 0, 0, flexible=0)
    users: Annotated[
        Sequence[DescribeUserScramCredentialsRequestUser] | None,
        array(DescribeUserScramCredentialsRequestUser).nullable(),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponseCredential:
    """One entry of ``credential_infos``."""

    mechanism: Annotated[int, I8] = 0
    iterations: Annotated[int, I32] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponseResult:
    """One entry of ``results``."""

    user: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    credential_infos: Annotated[
        Sequence[DescribeUserScramCredentialsResponseCredential], array(DescribeUserScramCredentialsResponseCredential)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials response, version 0."""

    API: ClassVar[Api] = Api(50, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    results: Annotated[
        Sequence[DescribeUserScramCredentialsResponseResult], array(DescribeUserScramCredentialsResponseResult)
    ] = ()
