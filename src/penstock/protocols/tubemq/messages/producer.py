"""Between producers and a master: methods 1, 2 and 3.

Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
"""

from __future__ import annotations

from penstock.protocols.tubemq.messages.authorization import MasterAuthorizedInfo, MasterCertificateInfo
from penstock.protocols.tubemq.messages.declare import (
    Listed,
    Maybe,
    Message,
    Type,
    message,
    optional,
    repeated,
    required,
)

__all__ = [
    "ApprovedClientConfig",
    "CloseRequestP2M",
    "CloseResponseM2P",
    "HeartRequestP2M",
    "HeartResponseM2P",
    "RegisterRequestP2M",
    "RegisterResponseM2P",
]


@message
class ApprovedClientConfig(Message):
    """The cluster's limits for clients; ``max_msg_size`` in bytes."""

    config_id: int = required(1, Type.INT64)
    max_msg_size: Maybe[int] = optional(2, Type.INT32)


@message
class RegisterRequestP2M(Message):
    """A producer appears; ``broker_check_sum`` is -1 or that of the broker list it has."""

    client_id: str = required(1, Type.STRING)
    topic_list: Listed[str] = repeated(2, Type.STRING)
    broker_check_sum: int = required(3, Type.INT64)
    host_name: str = required(4, Type.STRING)
    auth_info: Maybe[MasterCertificateInfo] = optional(5, MasterCertificateInfo)
    jdk_version: Maybe[str] = optional(6, Type.STRING)
    appd_config: Maybe[ApprovedClientConfig] = optional(7, ApprovedClientConfig)


@message
class RegisterResponseM2P(Message):
    """``broker_infos`` only where the checksum differed."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    broker_check_sum: int = required(4, Type.INT64)
    broker_infos: Listed[str] = repeated(5, Type.STRING)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(6, MasterAuthorizedInfo)
    appd_config: Maybe[ApprovedClientConfig] = optional(7, ApprovedClientConfig)


@message
class HeartRequestP2M(Message):
    """A producer is there, and wants these topics."""

    client_id: str = required(1, Type.STRING)
    broker_check_sum: int = required(2, Type.INT64)
    host_name: str = required(3, Type.STRING)
    topic_list: Listed[str] = repeated(4, Type.STRING)
    auth_info: Maybe[MasterCertificateInfo] = optional(5, MasterCertificateInfo)
    appd_config: Maybe[ApprovedClientConfig] = optional(6, ApprovedClientConfig)


@message
class HeartResponseM2P(Message):
    """``topic_infos`` come every time, ``broker_infos`` where the checksum differed."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    broker_check_sum: int = required(4, Type.INT64)
    topic_infos: Listed[str] = repeated(5, Type.STRING)
    broker_infos: Listed[str] = repeated(6, Type.STRING)
    require_auth: Maybe[bool] = optional(7, Type.BOOL)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(8, MasterAuthorizedInfo)
    appd_config: Maybe[ApprovedClientConfig] = optional(9, ApprovedClientConfig)


@message
class CloseRequestP2M(Message):
    """A producer goes."""

    client_id: str = required(1, Type.STRING)
    auth_info: Maybe[MasterCertificateInfo] = optional(2, MasterCertificateInfo)


@message
class CloseResponseM2P(Message):
    """Done."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
