"""Sends, pulls, offsets, single messages, and ends of transactions."""

from __future__ import annotations

import enum
from typing import Annotated

from penstock.protocols.rocketmq.wire.messages.declarations import Int32, Int64, Message, letter, named

__all__ = [
    "CheckTransaction",
    "Decision",
    "EndTransaction",
    "FoundOffset",
    "OfQueue",
    "PullFlag",
    "PullMessage",
    "Pulled",
    "PushReply",
    "QueriedMessages",
    "QueryConsumerOffset",
    "QueryMessage",
    "SearchOffset",
    "SendBack",
    "SendMessage",
    "Sent",
    "StoreTime",
    "UpdateConsumerOffset",
    "ViewMessage",
]


class Decision(enum.IntEnum):
    """``commit_or_rollback`` of END_TRANSACTION; the bits of a message's sysFlag."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class SendMessage(Message):
    """10 and 324 by names, 310, 320 and 325 by letters. ``broker_name`` is for proxies; brokers ignore it."""

    producer_group: Annotated[str, letter("a")]
    topic: Annotated[str, letter("b")]
    default_topic: Annotated[str, letter("c")] = "TBW102"
    default_topic_queue_nums: Annotated[Int32, letter("d")] = 4
    queue_id: Annotated[Int32, letter("e")]
    sys_flag: Annotated[Int32, letter("f")]
    born_timestamp: Annotated[Int64, letter("g")]
    flag: Annotated[Int32, letter("h")] = 0
    properties: Annotated[str | None, letter("i")] = None
    reconsume_times: Annotated[Int32 | None, letter("j")] = None
    unit_mode: Annotated[bool | None, letter("k")] = None
    max_reconsume_times: Annotated[Int32 | None, letter("l")] = None
    batch: Annotated[bool | None, letter("m")] = None
    broker_name: Annotated[str | None, named("bname", "n")] = None


class Sent(Message):
    """The answer to a send. A batch has one id per message, separated by commas, and its first message's offset."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


class SendBack(Message):
    """36: have a message redelivered later, to this group only. ``offset`` is its place in the commit log."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class EndTransaction(Message):
    """37, one-way: the outcome of the transaction that a half message began. ``msg_id`` is the message's UNIQ_KEY."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool | None = None
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class CheckTransaction(Message):
    """39, from a broker: asks for the outcome. The body is the stored half message."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class PushReply(Message):
    """326, from a broker to the client whose request a message answers. The body is the message's."""

    producer_group: str
    topic: str
    default_topic: str = "TBW102"
    default_topic_queue_nums: Int32 = 4
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32 = 0
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64


# Pulls, offsets and look-ups of messages: 11, 361, 14, 15, 29, 30, 31, 32, 12, 33. Source: Apache RocketMQ 4.9 and 5.x,
# ``PullMessageRequestHeader`` and the headers named after the other codes.
class PullFlag(enum.IntFlag):
    """Bits of a pull's ``sys_flag``. INLINE: the subscription is in the request, and the group may be unknown."""

    COMMIT = 1
    SUSPEND = 2
    INLINE = 4
    CLASS_FILTER = 8
    LITE = 16


class PullMessage(Message):
    """11 and 361. ``commit_offset`` counts with PullFlag.COMMIT, ``subscription`` with PullFlag.INLINE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class Pulled(Message):
    """The answer to a pull, with codes 0, 19, 20 and 21; others have no fields. ``max_offset`` is the next offset."""

    suggest_which_broker_id: Int64 = 0
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    offset_delta: Int64 | None = None
    forbidden_type: Int32 | None = None


class QueryConsumerOffset(Message):
    """14: a group's committed offset. Code 22 in the answer: none."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class UpdateConsumerOffset(Message):
    """15: commit the offset of the next message that the group has to consume."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    broker_name: Annotated[str | None, named("bname")] = None


class OfQueue(Message):
    """30 (the next offset that will be written), 31 (the first existing one), 32 (its time)."""

    topic: str
    queue_id: Int32
    committed: bool | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class SearchOffset(Message):
    """29: the offset of a time of storing, in milliseconds. ``boundary_type`` is 5.x's: lower or upper."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class FoundOffset(Message):
    """The answer to 14, 29, 30 and 31."""

    offset: Int64


class StoreTime(Message):
    """The answer to 32: milliseconds, -1 for an empty queue."""

    timestamp: Int64


class ViewMessage(Message):
    """33: one message by its place in the commit log; the body of the answer is the stored message."""

    offset: Int64
    topic: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class QueryMessage(Message):
    """12: messages by a key. Signed with version 399 and without ``is_unique_key``, else a broker may refuse it."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    is_unique_key: Annotated[bool | None, named("_UNIQUE_KEY_QUERY")] = None
    broker_name: Annotated[str | None, named("bname")] = None


class QueriedMessages(Message):
    """The answer to 12; the body is stored messages. Without any, some servers leave the index fields out."""

    index_last_update_timestamp: Int64 | None = None
    index_last_update_phyoffset: Int64 | None = None
