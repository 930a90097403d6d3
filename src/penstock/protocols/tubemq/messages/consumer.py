"""Between server-balanced consumers and a master: methods 4, 5 and 6.

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
    "CloseRequestC2M",
    "CloseResponseM2C",
    "EventProto",
    "HeartRequestC2M",
    "HeartResponseM2C",
    "RegisterRequestC2M",
    "RegisterResponseM2C",
]


@message
class EventProto(Message):
    """Partitions taken or given: an event, and in a request its acknowledgement."""

    rebalance_id: Maybe[int] = optional(1, Type.INT64)
    op_type: Maybe[int] = optional(2, Type.INT32)
    status: Maybe[int] = optional(3, Type.INT32)
    subscribe_info: Listed[str] = repeated(4, Type.STRING)


@message
class RegisterRequestC2M(Message):
    """A consumer joins its group."""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    host_name: str = required(3, Type.STRING)
    topic_list: Listed[str] = repeated(4, Type.STRING)
    subscribe_info: Listed[str] = repeated(5, Type.STRING)
    topic_condition: Listed[str] = repeated(6, Type.STRING)
    require_bound: Maybe[bool] = optional(7, Type.BOOL)
    session_time: Maybe[int] = optional(8, Type.INT64)
    session_key: Maybe[str] = optional(9, Type.STRING)
    total_count: Maybe[int] = optional(10, Type.INT32)
    required_partition: Maybe[str] = optional(11, Type.STRING)
    not_allocated: Maybe[bool] = optional(12, Type.BOOL)
    select_big: Maybe[bool] = optional(13, Type.BOOL)
    group_flow_check_id: Maybe[int] = optional(14, Type.INT64)
    def_flow_check_id: Maybe[int] = optional(15, Type.INT64)
    ssd_store_id: Maybe[int] = optional(16, Type.INT64)
    qry_priority_id: Maybe[int] = optional(17, Type.INT32)
    auth_info: Maybe[MasterCertificateInfo] = optional(18, MasterCertificateInfo)
    jdk_version: Maybe[str] = optional(19, Type.STRING)


@message
class RegisterResponseM2C(Message):
    """It is in; partitions come as events with heartbeats."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    topic_info: Listed[str] = repeated(4, Type.STRING)
    not_allocated: Maybe[bool] = optional(5, Type.BOOL)
    def_flow_check_id: Maybe[int] = optional(6, Type.INT64)
    def_flow_control_info: Maybe[str] = optional(7, Type.STRING)
    group_flow_check_id: Maybe[int] = optional(8, Type.INT64)
    group_flow_control_info: Maybe[str] = optional(9, Type.STRING)
    ssd_store_id: Maybe[int] = optional(10, Type.INT64)
    qry_priority_id: Maybe[int] = optional(11, Type.INT32)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(12, MasterAuthorizedInfo)


@message
class HeartRequestC2M(Message):
    """A consumer is there; what it holds if asked, and which event it has dealt with."""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    subscribe_info: Listed[str] = repeated(3, Type.STRING)
    report_subscribe_info: bool = required(4, Type.BOOL)
    event: Maybe[EventProto] = optional(5, EventProto)
    def_flow_check_id: Maybe[int] = optional(6, Type.INT64)
    group_flow_check_id: Maybe[int] = optional(7, Type.INT64)
    ssd_store_id: Maybe[int] = optional(8, Type.INT64)
    qry_priority_id: Maybe[int] = optional(9, Type.INT32)
    auth_info: Maybe[MasterCertificateInfo] = optional(10, MasterCertificateInfo)


@message
class HeartResponseM2C(Message):
    """The next event, and flow control where it changed."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    event: Maybe[EventProto] = optional(4, EventProto)
    not_allocated: Maybe[bool] = optional(5, Type.BOOL)
    def_flow_check_id: Maybe[int] = optional(6, Type.INT64)
    def_flow_control_info: Maybe[str] = optional(7, Type.STRING)
    group_flow_check_id: Maybe[int] = optional(8, Type.INT64)
    group_flow_control_info: Maybe[str] = optional(9, Type.STRING)
    ssd_store_id: Maybe[int] = optional(10, Type.INT64)
    qry_priority_id: Maybe[int] = optional(11, Type.INT32)
    require_auth: Maybe[bool] = optional(12, Type.BOOL)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(13, MasterAuthorizedInfo)


@message
class CloseRequestC2M(Message):
    """A consumer leaves (client-balanced ones too)."""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    auth_info: Maybe[MasterCertificateInfo] = optional(3, MasterCertificateInfo)


@message
class CloseResponseM2C(Message):
    """Done."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
