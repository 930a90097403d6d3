"""SaslHandshake and SaslAuthenticate: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BYTES, I16, I64, STR, Api, array
from penstock.seams import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    """SaslHandshake request, versions 0-1."""

    API: ClassVar[Api] = Api(17, 0, 1, flexible=None)
    mechanism: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    """SaslHandshake response, versions 0-1."""

    API: ClassVar[Api] = Api(17, 0, 1, flexible=None)
    error_code: Annotated[int, I16] = 0
    mechanisms: Annotated[Sequence[str], array(STR)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """SaslAuthenticate request, versions 0-2."""

    API: ClassVar[Api] = Api(36, 0, 2, flexible=2)
    auth_bytes: Annotated[Buffer, BYTES] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """SaslAuthenticate response, versions 0-2."""

    API: ClassVar[Api] = Api(36, 0, 2, flexible=2)
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    auth_bytes: Annotated[Buffer, BYTES] = b""
    session_lifetime_ms: Annotated[int, I64.since(1).ignorable()] = 0
