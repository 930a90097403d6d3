"""Between a broker and its master: methods 7, 8 and 9.

Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
"""

from __future__ import annotations

from penstock.protocols.tubemq.messages.authorization import (
    EnableBrokerFunInfo,
    MasterAuthorizedInfo,
    MasterBrokerAuthorizedInfo,
    MasterCertificateInfo,
)
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
    "CloseRequestB2M",
    "CloseResponseM2B",
    "ClusterConfig",
    "HeartRequestB2M",
    "HeartResponseM2B",
    "RegisterRequestB2M",
    "RegisterResponseM2B",
]


@message
class ClusterConfig(Message):
    """The cluster's limits for brokers."""

    config_id: int = required(1, Type.INT64)
    max_msg_size: Maybe[int] = optional(2, Type.INT32)


@message
class RegisterRequestB2M(Message):
    """A broker appears; ``client_id`` is ``id:host:port:version``."""

    client_id: str = required(1, Type.STRING)
    broker_online: bool = required(2, Type.BOOL)
    enable_tls: bool = required(3, Type.BOOL)
    read_status_rpt: int = required(4, Type.INT32)
    write_status_rpt: int = required(5, Type.INT32)
    cur_broker_conf_id: int = required(6, Type.INT64)
    conf_check_sum_id: int = required(7, Type.INT32)
    broker_default_conf_info: str = required(8, Type.STRING)
    broker_topic_set_conf_info: Listed[str] = repeated(9, Type.STRING)
    ssd_store_id: Maybe[int] = optional(10, Type.INT64)
    flow_check_id: Maybe[int] = optional(11, Type.INT64)
    qry_priority_id: Maybe[int] = optional(12, Type.INT32)
    tls_port: Maybe[int] = optional(13, Type.INT32)
    auth_info: Maybe[MasterCertificateInfo] = optional(14, MasterCertificateInfo)
    cls_config: Maybe[ClusterConfig] = optional(15, ClusterConfig)


@message
class RegisterResponseM2B(Message):
    """Its topics, what to check, and flow control."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    stop_read: bool = required(4, Type.BOOL)
    stop_write: bool = required(5, Type.BOOL)
    take_conf_info: bool = required(6, Type.BOOL)
    enable_broker_info: Maybe[EnableBrokerFunInfo] = optional(7, EnableBrokerFunInfo)
    cur_broker_conf_id: Maybe[int] = optional(8, Type.INT64)
    conf_check_sum_id: Maybe[int] = optional(9, Type.INT32)
    broker_default_conf_info: Maybe[str] = optional(10, Type.STRING)
    broker_topic_set_conf_info: Listed[str] = repeated(11, Type.STRING)
    ssd_store_id: Maybe[int] = optional(12, Type.INT64)
    flow_check_id: Maybe[int] = optional(13, Type.INT64)
    flow_control_info: Maybe[str] = optional(14, Type.STRING)
    qry_priority_id: Maybe[int] = optional(15, Type.INT32)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(16, MasterAuthorizedInfo)
    broker_authorized_info: Maybe[MasterBrokerAuthorizedInfo] = optional(17, MasterBrokerAuthorizedInfo)
    cls_config: Maybe[ClusterConfig] = optional(18, ClusterConfig)


@message
class HeartRequestB2M(Message):
    """A broker is there."""

    broker_id: str = required(1, Type.STRING)
    broker_online: bool = required(2, Type.BOOL)
    read_status_rpt: int = required(3, Type.INT32)
    write_status_rpt: int = required(4, Type.INT32)
    cur_broker_conf_id: int = required(5, Type.INT64)
    conf_check_sum_id: int = required(6, Type.INT32)
    take_conf_info: bool = required(7, Type.BOOL)
    take_removed_topic_info: bool = required(8, Type.BOOL)
    broker_default_conf_info: Maybe[str] = optional(9, Type.STRING)
    broker_topic_set_conf_info: Listed[str] = repeated(10, Type.STRING)
    removed_topics_info: Listed[str] = repeated(11, Type.STRING)
    ssd_store_id: Maybe[int] = optional(12, Type.INT64)
    flow_check_id: Maybe[int] = optional(13, Type.INT64)
    qry_priority_id: Maybe[int] = optional(14, Type.INT32)
    auth_info: Maybe[MasterCertificateInfo] = optional(15, MasterCertificateInfo)
    cls_config: Maybe[ClusterConfig] = optional(16, ClusterConfig)


@message
class HeartResponseM2B(Message):
    """What changed."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    stop_read: bool = required(4, Type.BOOL)
    stop_write: bool = required(5, Type.BOOL)
    cur_broker_conf_id: int = required(6, Type.INT64)
    conf_check_sum_id: int = required(7, Type.INT32)
    need_report_data: bool = required(8, Type.BOOL)
    take_conf_info: bool = required(9, Type.BOOL)
    take_remove_topic_info: bool = required(10, Type.BOOL)
    broker_default_conf_info: Maybe[str] = optional(11, Type.STRING)
    broker_topic_set_conf_info: Listed[str] = repeated(12, Type.STRING)
    remove_topic_conf_info: Listed[str] = repeated(13, Type.STRING)
    ssd_store_id: Maybe[int] = optional(14, Type.INT64)
    flow_check_id: Maybe[int] = optional(15, Type.INT64)
    flow_control_info: Maybe[str] = optional(16, Type.STRING)
    qry_priority_id: Maybe[int] = optional(17, Type.INT32)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(18, MasterAuthorizedInfo)
    broker_authorized_info: Maybe[MasterBrokerAuthorizedInfo] = optional(19, MasterBrokerAuthorizedInfo)
    cls_config: Maybe[ClusterConfig] = optional(20, ClusterConfig)


@message
class CloseRequestB2M(Message):
    """A broker goes."""

    broker_id: str = required(1, Type.STRING)
    auth_info: Maybe[MasterCertificateInfo] = optional(2, MasterCertificateInfo)


@message
class CloseResponseM2B(Message):
    """Done."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
