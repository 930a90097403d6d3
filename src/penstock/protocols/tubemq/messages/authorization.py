"""Who somebody is, as messages carry it: signatures, tokens, and what a broker is told to check.

Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
"""

from __future__ import annotations

from penstock.protocols.tubemq.messages.declare import Maybe, Message, Type, message, optional, required

__all__ = [
    "AuthenticateInfo",
    "AuthorizedInfo",
    "EnableBrokerFunInfo",
    "MasterAuthorizedInfo",
    "MasterBrokerAuthorizedInfo",
    "MasterCertificateInfo",
]


@message
class AuthenticateInfo(Message):
    """A signature: HMAC-SHA1 over name, time and nonce (see ``authentication``)."""

    user_name: str = required(1, Type.STRING)
    timestamp: int = required(2, Type.INT64)
    nonce: int = required(3, Type.INT32)
    oth_params: str = required(4, Type.STRING)
    signature: str = required(5, Type.STRING)


@message
class MasterCertificateInfo(Message):
    """What clients and brokers show to a master."""

    auth_info: Maybe[AuthenticateInfo] = optional(1, AuthenticateInfo)
    authorized_token: Maybe[str] = optional(2, Type.STRING)


@message
class MasterAuthorizedInfo(Message):
    """The token a master gives to clients; they show it to brokers."""

    visit_authorized_token: int = required(1, Type.INT64)
    auth_authorized_token: Maybe[str] = optional(2, Type.STRING)


@message
class MasterBrokerAuthorizedInfo(Message):
    """The tokens a master gives to brokers: ``previous,current``."""

    visit_authorized_token: str = required(1, Type.STRING)
    auth_authorized_token: Maybe[str] = optional(2, Type.STRING)


@message
class AuthorizedInfo(Message):
    """What clients show to a broker."""

    visit_authorized_token: int = required(1, Type.INT64)
    auth_authorized_token: Maybe[str] = optional(2, Type.STRING)


@message
class EnableBrokerFunInfo(Message):
    """What a broker is to check."""

    enable_consume_authenticate: bool = required(1, Type.BOOL)
    enable_consume_authorize: bool = required(2, Type.BOOL)
    enable_produce_authenticate: bool = required(3, Type.BOOL)
    enable_produce_authorize: bool = required(4, Type.BOOL)
    enable_visit_token_check: Maybe[bool] = optional(5, Type.BOOL)
