"""Between client-balanced consumers and a master (V2): methods 20, 21 and 22.

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
    "ClientSubRepInfo",
    "GetPartMetaRequestC2M",
    "GetPartMetaResponseM2C",
    "HeartRequestC2MV2",
    "HeartResponseM2CV2",
    "OpsTaskInfo",
    "RegisterRequestC2MV2",
    "RegisterResponseM2CV2",
]


@message
class ClientSubRepInfo(Message):
    """What a client knows of brokers and partitions, and what it holds."""

    broker_config_id: int = required(1, Type.INT64)
    topic_meta_info_id: int = required(2, Type.INT64)
    lst_assigned_time: Maybe[int] = optional(3, Type.INT64)
    report_sub_info: Maybe[bool] = optional(4, Type.BOOL)
    part_sub_info: Listed[str] = repeated(5, Type.STRING)


@message
class OpsTaskInfo(Message):
    """Flow control and operator's wishes; only what is there counts."""

    group_flow_check_id: Maybe[int] = optional(1, Type.INT64)
    def_flow_check_id: Maybe[int] = optional(2, Type.INT64)
    qry_priority_id: Maybe[int] = optional(3, Type.INT32)
    csm_frm_max_offset_ctrl_id: Maybe[int] = optional(4, Type.INT64)
    require_auth: Maybe[bool] = optional(5, Type.BOOL)
    def_flow_control_info: Maybe[str] = optional(6, Type.STRING)
    group_flow_control_info: Maybe[str] = optional(7, Type.STRING)


@message
class RegisterRequestC2MV2(Message):
    """A consumer joins a group whose members choose for themselves."""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    host_name: str = required(3, Type.STRING)
    source_count: int = required(4, Type.INT32)
    node_id: int = required(5, Type.INT32)
    topic_list: Listed[str] = repeated(6, Type.STRING)
    topic_condition: Listed[str] = repeated(7, Type.STRING)
    sub_rep_info: Maybe[ClientSubRepInfo] = optional(8, ClientSubRepInfo)
    ops_task_info: Maybe[OpsTaskInfo] = optional(9, OpsTaskInfo)
    auth_info: Maybe[MasterCertificateInfo] = optional(10, MasterCertificateInfo)
    jdk_version: Maybe[str] = optional(11, Type.STRING)


@message
class RegisterResponseM2CV2(Message):
    """``err_code`` 200 is success; there is no flag."""

    err_code: int = required(1, Type.INT32)
    err_msg: str = required(2, Type.STRING)
    broker_config_id: Maybe[int] = optional(3, Type.INT64)
    broker_config_list: Listed[str] = repeated(4, Type.STRING)
    ops_task_info: Maybe[OpsTaskInfo] = optional(5, OpsTaskInfo)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(6, MasterAuthorizedInfo)


@message
class HeartRequestC2MV2(Message):
    """A consumer is there."""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    sub_rep_info: Maybe[ClientSubRepInfo] = optional(3, ClientSubRepInfo)
    ops_task_info: Maybe[OpsTaskInfo] = optional(4, OpsTaskInfo)
    auth_info: Maybe[MasterCertificateInfo] = optional(5, MasterCertificateInfo)


@message
class HeartResponseM2CV2(Message):
    """Ids always, lists where the ids differ."""

    err_code: int = required(1, Type.INT32)
    err_msg: str = required(2, Type.STRING)
    broker_config_id: Maybe[int] = optional(3, Type.INT64)
    broker_config_list: Listed[str] = repeated(4, Type.STRING)
    topic_meta_info_id: Maybe[int] = optional(5, Type.INT64)
    topic_meta_info_list: Listed[str] = repeated(6, Type.STRING)
    ops_task_info: Maybe[OpsTaskInfo] = optional(7, OpsTaskInfo)
    authorized_info: Maybe[MasterAuthorizedInfo] = optional(8, MasterAuthorizedInfo)


@message
class GetPartMetaRequestC2M(Message):
    """Which brokers and partitions are there?"""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    broker_config_id: int = required(3, Type.INT64)
    topic_meta_info_id: int = required(4, Type.INT64)
    auth_info: Maybe[MasterCertificateInfo] = optional(5, MasterCertificateInfo)


@message
class GetPartMetaResponseM2C(Message):
    """Ids, and the lists that changed."""

    err_code: int = required(1, Type.INT32)
    err_msg: str = required(2, Type.STRING)
    broker_config_id: Maybe[int] = optional(3, Type.INT64)
    topic_meta_info_id: Maybe[int] = optional(4, Type.INT64)
    topic_meta_info_list: Listed[str] = repeated(5, Type.STRING)
    broker_config_list: Listed[str] = repeated(6, Type.STRING)
