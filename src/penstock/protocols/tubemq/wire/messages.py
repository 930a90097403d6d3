"""Every message of the protocol as a declared class: envelopes, then what clients, brokers and masters say."""

from __future__ import annotations

from penstock.protocols.tubemq.wire.protobuf import Listed, Maybe, Message, Type, message, optional, repeated, required

__all__ = [
    "ApprovedClientConfig",
    "AuthenticateInfo",
    "AuthorizedInfo",
    "ClientSubRepInfo",
    "CloseRequestB2M",
    "CloseRequestC2M",
    "CloseRequestP2M",
    "CloseResponseM2B",
    "CloseResponseM2C",
    "CloseResponseM2P",
    "ClusterConfig",
    "CommitOffsetRequestC2B",
    "CommitOffsetResponseB2C",
    "EnableBrokerFunInfo",
    "EventProto",
    "GetMessageRequestC2B",
    "GetMessageResponseB2C",
    "GetPartMetaRequestC2M",
    "GetPartMetaResponseM2C",
    "HeartBeatRequestC2B",
    "HeartBeatResponseB2C",
    "HeartRequestB2M",
    "HeartRequestC2M",
    "HeartRequestC2MV2",
    "HeartRequestP2M",
    "HeartResponseM2B",
    "HeartResponseM2C",
    "HeartResponseM2CV2",
    "HeartResponseM2P",
    "MasterAuthorizedInfo",
    "MasterBrokerAuthorizedInfo",
    "MasterCertificateInfo",
    "OpsTaskInfo",
    "RegisterRequestB2M",
    "RegisterRequestC2B",
    "RegisterRequestC2M",
    "RegisterRequestC2MV2",
    "RegisterRequestP2M",
    "RegisterResponseB2C",
    "RegisterResponseM2B",
    "RegisterResponseM2C",
    "RegisterResponseM2CV2",
    "RegisterResponseM2P",
    "RequestBody",
    "RequestHeader",
    "ResponseHeader",
    "RpcConnHeader",
    "RspExceptionBody",
    "RspResponseBody",
    "SendMessageRequestP2B",
    "SendMessageResponseB2P",
    "TransferedMessage",
]


# The parts of an RPC frame, around every message: headers, request and answer bodies.
#
# Source: RPC protocol of Apache InLong TubeMQ 2.x, ``RPC.proto``; names never go on the wire.
@message
class RpcConnHeader(Message):
    """First unit of a frame; ``flag`` 0 in a request, 1 in an answer. The ids are never used."""

    flag: int = required(1, Type.INT32)
    trace_id: Maybe[int] = optional(2, Type.INT64)
    span_id: Maybe[int] = optional(3, Type.INT64)
    parent_id: Maybe[int] = optional(4, Type.INT64)


@message
class RequestHeader(Message):
    """Second unit of a request: which service, and which spelling of exception names is wanted."""

    service_type: Maybe[int] = optional(1, Type.INT32)
    protocol_ver: Maybe[int] = optional(2, Type.INT32)


@message
class RequestBody(Message):
    """Third unit of a request: method, the caller's patience in ms, the method's own message."""

    method: int = required(1, Type.INT32)
    timeout: Maybe[int] = optional(2, Type.INT64)
    request: Maybe[bytes] = optional(3, Type.BYTES)


@message
class ResponseHeader(Message):
    """Second unit of an answer: status 0 success, 1 the call failed, 2 it could not be made."""

    status: int = required(1, Type.INT32)
    service_type: Maybe[int] = optional(2, Type.INT32)
    protocol_ver: Maybe[int] = optional(3, Type.INT32)


@message
class RspExceptionBody(Message):
    """Third unit of a failure: a Java class name and its text."""

    exception_name: str = required(1, Type.STRING)
    stack_trace: Maybe[str] = optional(2, Type.STRING)


@message
class RspResponseBody(Message):
    """Third unit of a success: the method's own message."""

    method: int = required(1, Type.INT32)
    data: bytes = required(2, Type.BYTES)


# Identity as messages carry it: signatures, tokens, and what a broker is to check.
#
# Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
@message
class AuthenticateInfo(Message):
    """A signature: HMAC-SHA1 over name, time and nonce (see `client.options`)."""

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


# Between producers and a master: methods 1, 2 and 3.
#
# Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
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


# Between server-balanced consumers and a master: methods 4, 5 and 6.
#
# Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
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


# Between client-balanced consumers and a master (V2): methods 20, 21 and 22.
#
# Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
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


# Between clients and a broker: methods 13, 15, 16, 17 and 18.
#
# Source: Apache InLong TubeMQ 2.x, ``BrokerService.proto``; names never go on the wire.
@message
class TransferedMessage(Message):
    """One message of a batch; ``records`` reads and writes its payload."""

    message_id: int = required(1, Type.INT64)
    check_sum: int = required(2, Type.INT32)
    pay_load_data: bytes = required(3, Type.BYTES)
    flag: int = required(4, Type.INT32)


@message
class SendMessageRequestP2B(Message):
    """One message to store; ``check_sum`` -1 means "not computed"."""

    client_id: str = required(1, Type.STRING)
    topic_name: str = required(2, Type.STRING)
    partition_id: int = required(3, Type.INT32)
    data: bytes = required(4, Type.BYTES)
    flag: int = required(5, Type.INT32)
    check_sum: int = required(6, Type.INT32)
    sent_addr: int = required(7, Type.INT32)
    msg_type: Maybe[str] = optional(8, Type.STRING)
    msg_time: Maybe[str] = optional(9, Type.STRING)
    auth_info: Maybe[AuthorizedInfo] = optional(10, AuthorizedInfo)


@message
class SendMessageResponseB2P(Message):
    """``append_offset`` is the offset of the message itself."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    require_auth: Maybe[bool] = optional(4, Type.BOOL)
    message_id: Maybe[int] = optional(5, Type.INT64)
    append_time: Maybe[int] = optional(6, Type.INT64)
    append_offset: Maybe[int] = optional(7, Type.INT64)


@message
class RegisterRequestC2B(Message):
    """Book a partition (``op_type`` 31) or give it back (32)."""

    op_type: int = required(1, Type.INT32)
    client_id: str = required(2, Type.STRING)
    group_name: str = required(3, Type.STRING)
    topic_name: str = required(4, Type.STRING)
    partition_id: int = required(5, Type.INT32)
    read_status: int = required(6, Type.INT32)
    filter_cond_str: Listed[str] = repeated(7, Type.STRING)
    curr_offset: Maybe[int] = optional(8, Type.INT64)
    session_key: Maybe[str] = optional(9, Type.STRING)
    session_time: Maybe[int] = optional(10, Type.INT64)
    ssd_store_id: Maybe[int] = optional(11, Type.INT64)
    qry_priority_id: Maybe[int] = optional(12, Type.INT32)
    auth_info: Maybe[AuthorizedInfo] = optional(13, AuthorizedInfo)


@message
class RegisterResponseB2C(Message):
    """``curr_offset`` is where reading begins."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    curr_offset: Maybe[int] = optional(4, Type.INT64)
    max_offset: Maybe[int] = optional(5, Type.INT64)


@message
class HeartBeatRequestC2B(Message):
    """Keep the booking of partitions, given as partition strings."""

    client_id: str = required(1, Type.STRING)
    group_name: str = required(2, Type.STRING)
    read_status: int = required(3, Type.INT32)
    partition_info: Listed[str] = repeated(4, Type.STRING)
    ssd_store_id: Maybe[int] = optional(5, Type.INT64)
    qry_priority_id: Maybe[int] = optional(6, Type.INT32)
    auth_info: Maybe[AuthorizedInfo] = optional(7, AuthorizedInfo)


@message
class HeartBeatResponseB2C(Message):
    """``failure_info`` has error code and partition string of each one lost."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    has_part_failure: Maybe[bool] = optional(4, Type.BOOL)
    failure_info: Listed[str] = repeated(5, Type.STRING)
    require_auth: Maybe[bool] = optional(6, Type.BOOL)


@message
class GetMessageRequestC2B(Message):
    """Read a batch; with ``last_pack_consumed`` the one before counts as consumed."""

    client_id: str = required(1, Type.STRING)
    partition_id: int = required(2, Type.INT32)
    group_name: str = required(3, Type.STRING)
    topic_name: str = required(4, Type.STRING)
    last_pack_consumed: Maybe[bool] = optional(5, Type.BOOL)
    manual_commit_offset: Maybe[bool] = optional(6, Type.BOOL)
    esc_flow_ctrl: Maybe[bool] = optional(7, Type.BOOL)


@message
class GetMessageResponseB2C(Message):
    """``curr_offset`` is where this batch began. Large ones are read by ``records``, not through this class."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: Maybe[str] = optional(3, Type.STRING)
    messages: Listed[TransferedMessage] = repeated(4, TransferedMessage)
    curr_offset: Maybe[int] = optional(5, Type.INT64)
    min_limit_time: Maybe[int] = optional(6, Type.INT32)
    esc_flow_ctrl: Maybe[bool] = optional(7, Type.BOOL)
    curr_data_dlt: Maybe[int] = optional(8, Type.INT64)
    require_slow: Maybe[bool] = optional(9, Type.BOOL)
    max_offset: Maybe[int] = optional(10, Type.INT64)


@message
class CommitOffsetRequestC2B(Message):
    """Confirm the batch read last, or take it back."""

    client_id: str = required(1, Type.STRING)
    topic_name: str = required(2, Type.STRING)
    partition_id: int = required(3, Type.INT32)
    group_name: str = required(4, Type.STRING)
    last_pack_consumed: Maybe[bool] = optional(5, Type.BOOL)


@message
class CommitOffsetResponseB2C(Message):
    """``curr_offset`` is where the next batch begins."""

    success: bool = required(1, Type.BOOL)
    err_code: int = required(2, Type.INT32)
    err_msg: str = required(3, Type.STRING)
    curr_offset: Maybe[int] = optional(4, Type.INT64)
    max_offset: Maybe[int] = optional(5, Type.INT64)


# Between a broker and its master: methods 7, 8 and 9.
#
# Source: Apache InLong TubeMQ 2.x, ``MasterService.proto``; names never go on the wire.
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
