"""Between clients and a broker: methods 13, 15, 16, 17 and 18.

Source: Apache InLong TubeMQ 2.x, ``BrokerService.proto``; names never go on the wire.
"""

from __future__ import annotations

from penstock.protocols.tubemq.messages.authorization import AuthorizedInfo
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
    "CommitOffsetRequestC2B",
    "CommitOffsetResponseB2C",
    "GetMessageRequestC2B",
    "GetMessageResponseB2C",
    "HeartBeatRequestC2B",
    "HeartBeatResponseB2C",
    "RegisterRequestC2B",
    "RegisterResponseB2C",
    "SendMessageRequestP2B",
    "SendMessageResponseB2P",
    "TransferedMessage",
]


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
